"""Compare the networks of sweeps: means, spreads and ranks over random seeds and images."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev

from entry.job import run_job
from entry.sweep_tables import MEASURES, TableRow, read_table
from neuralfield.system.files import write_csv


def main(summary: Path, comparison: Path, by_image: Path, *, sweeps: Sequence[str]) -> None:
    """Write both tables, grouped by sweep and sorted by rank.

    `comparison` has a row for each combination of each sweep, over all its images and seeds;
    `by_image` has a row for each combination and image, over its seeds. `summary` is the table of
    ``summarize.py`` with labels.
    """
    runs = read_table(summary)
    overall, images = [], []
    for sweep in sweeps:
        own = [run | {"sweep": sweep} for run in runs if sweep in run["sweep"].split()]
        on_images = on_each_image(own)
        images += on_images
        overall += over_all_images(own, on_images)
    for path, rows in ((comparison, overall), (by_image, images)):
        write_csv(path, rows[0], ([row[name] for name in rows[0]] for row in rows))


def on_each_image(runs: Sequence[TableRow]) -> list[TableRow]:
    """Return means over seeds, and ranks among the networks of the same image.

    Networks are ranked by ``score_db``: the PSNR of the render against the source if the source is
    larger than the training image, else against the training image. Equal scores share the mean of
    their ranks.
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


def over_all_images(runs: Sequence[TableRow], on_images: Sequence[TableRow]) -> list[TableRow]:
    """Return means over seeds and images, and ranks by the mean of the ranks on the images."""
    rows = []
    for described, group in _by_combination(runs):
        ranks = [row["rank"] for row in on_images if row["combination"] == described["combination"]]
        places = {"rank": 0, "mean_rank": fmean(ranks), "images": len(ranks)}
        rows.append(described | places | spread(group))
    for row in rows:
        row["rank"] = 1 + sum(other["mean_rank"] < row["mean_rank"] for other in rows)
    return sorted(rows, key=lambda row: row["rank"])


def spread(runs: Sequence[TableRow]) -> TableRow:
    """Return the number of runs, and mean and standard deviation (n - 1) of each measure."""
    row: TableRow = {"runs": len(runs)}
    for measure in MEASURES:
        values = [run[measure] for run in runs if run.get(measure) is not None]
        row[f"{measure}_mean"] = fmean(values) if values else None
        row[f"{measure}_sd"] = stdev(values) if len(values) > 1 else None
    return row


def _by_combination(runs: Sequence[TableRow]) -> list[tuple[TableRow, list[TableRow]]]:
    """Return the names and settings of each combination, and its runs, in order of appearance."""
    groups: dict[str, list[TableRow]] = {}
    for run in runs:
        groups.setdefault(run["combination"], []).append(run)
    described = ("sweep", "combination", "base_field")
    return [
        ({k: v for k, v in of[0].items() if k in described or k.startswith("setting_")}, of)
        for of in groups.values()
    ]


if __name__ == "__main__":
    run_job(main)
