"""Compare the networks of sweeps: means, spreads and ranks over random seeds and pictures."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from neuralfield.system.errors import InputError
from neuralfield.system.files import write_atomically
from neuralfield.system.input_files import read_own_csv

if TYPE_CHECKING:
    from entry.job import snakemake

MEASURES = ("psnr_db", "ssim", "upscale_psnr_db", "train_seconds", "parameters")
NAMES = ("image", "field", "sweep", "base_field", "combination", "device", "engine", "precision")
"""Columns that stay text, as do settings, whatever it looks like."""

Row = dict[str, Any]
"""A row of a table by its columns; None where there is no number."""


def main(summary: Path, comparison: Path, by_image: Path, *, sweeps: Sequence[str]) -> None:
    """Write both tables; the rows of a sweep stand together, the best first.

    Parameters
    ----------
    summary : Path
        CSV written by ``summarize.py``, with the columns sweep, base_field, combination and
        setting_{name}.
    comparison : Path
        CSV to write: a row for each combination of each sweep, over all its pictures and seeds.
    by_image : Path
        CSV to write: a row for each combination and picture, over its seeds.
    sweeps : sequence of str
        Names of the sweeps, in the order to write them in.
    """
    runs = read_table(summary)
    overall, pictures = [], []
    for sweep in sweeps:
        own = [run | {"sweep": sweep} for run in runs if sweep in run["sweep"].split()]
        on_pictures = on_each_picture(own)
        pictures += on_pictures
        overall += over_all_pictures(own, on_pictures)
    _write_table(comparison, overall)
    _write_table(by_image, pictures)


def read_table(path: Path) -> list[Row]:
    """Read the rows of a table that this workflow wrote.

    Raises
    ------
    InputError
        The table is missing or damaged.
    """
    expected = "a table written by neuralfield"
    remedy = "remove it, and run the same command again: it is made anew"
    table = read_own_csv(path, expected, remedy, dtype=str, keep_default_na=False)
    columns = {}
    for name, texts in table.items():
        is_text = name in NAMES or str(name).startswith("setting_")
        try:
            columns[name] = [text if is_text else float(text) if text else None for text in texts]
        except ValueError as error:
            raise InputError(str(path), f"{name}: {error}", expected, remedy) from error
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def on_each_picture(runs: Sequence[Row]) -> list[Row]:
    """Means over seeds, and ranks among the networks that were taught the same picture.

    Parameters
    ----------
    runs : sequence of Row
        A sweep's rows of the summary.

    Returns
    -------
    list of Row
        ``score_db`` is what the rank goes by: the redraw against the source where that is larger,
        else the drawing against what was taught. Equal scores share the mean of their ranks.
    """
    rows = []
    for image in dict.fromkeys(run["image"] for run in runs):
        own = []
        for described, group in _by_combination([run for run in runs if run["image"] == image]):
            measured = spread(group)
            redraw_db = measured["upscale_psnr_db_mean"]
            score_db = measured["psnr_db_mean"] if redraw_db is None else redraw_db
            own.append(described | {"image": image, "rank": 0, "score_db": score_db} | measured)
        scores = [row["score_db"] for row in own]
        for row in own:
            equal = scores.count(row["score_db"])
            row["rank"] = sum(score > row["score_db"] for score in scores) + (equal + 1) / 2
        rows += sorted(own, key=lambda row: row["rank"])
    return rows


def over_all_pictures(runs: Sequence[Row], on_pictures: Sequence[Row]) -> list[Row]:
    """Means over seeds and pictures, and ranks by the mean of the ranks on the pictures."""
    rows = []
    for described, group in _by_combination(runs):
        ranks = [
            row["rank"] for row in on_pictures if row["combination"] == described["combination"]
        ]
        places = {"rank": 0, "mean_rank": fmean(ranks), "images": len(ranks)}
        rows.append(described | places | spread(group))
    for row in rows:
        row["rank"] = 1 + sum(other["mean_rank"] < row["mean_rank"] for other in rows)
    return sorted(rows, key=lambda row: row["rank"])


def spread(runs: Sequence[Row]) -> Row:
    """Number of runs, and the mean and standard deviation (n - 1) of each measure.

    The standard deviation of one run is None, as is the mean of what none of them has.
    """
    row: Row = {"runs": len(runs)}
    for measure in MEASURES:
        values = [run[measure] for run in runs if run[measure] is not None]
        row[f"{measure}_mean"] = fmean(values) if values else None
        row[f"{measure}_sd"] = stdev(values) if len(values) > 1 else None
    return row


def _by_combination(runs: Sequence[Row]) -> list[tuple[Row, list[Row]]]:
    """What a network is, and its runs, in the order in which networks come first."""
    groups: dict[str, list[Row]] = {}
    for run in runs:
        groups.setdefault(run["combination"], []).append(run)
    described = ("sweep", "combination", "base_field")
    return [
        ({k: v for k, v in of[0].items() if k in described or k.startswith("setting_")}, of)
        for of in groups.values()
    ]


def _write_table(path: Path, rows: Sequence[Row]) -> None:
    content = io.StringIO()
    table = csv.DictWriter(content, rows[0], lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    write_atomically(path, content.getvalue().encode())


if __name__ == "__main__":
    from entry.job import run_job

    run_job(
        main,
        snakemake,
        summary=Path(snakemake.input.summary),
        comparison=Path(snakemake.output.comparison),
        by_image=Path(snakemake.output.by_image),
        sweeps=snakemake.params.sweeps,
    )
