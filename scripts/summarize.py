"""Gather the numbers of every picture and network into one table."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from neuralfield.system.files import write_atomically
from neuralfield.system.input_files import read_json

if TYPE_CHECKING:
    from entry.job import snakemake

COLUMNS = (
    "image",
    "field",
    "width",
    "height",
    "psnr_db",
    "ssim",
    "wrong_pixels",
    "upscale_width",
    "upscale_height",
    "upscale_psnr_db",
    "upscale_lanczos_psnr_db",
    "upscale_bicubic_psnr_db",
    "parameters",
    "steps",
    "train_seconds",
    "step_microseconds",
    "device",
    "engine",
    "precision",
    "random_seed",
)
TILE_COLUMNS = ("tiles", "seam_psnr_db")
"""Further ones, where a picture was taught in tiles."""
COUNTS = [
    "width",
    "height",
    "wrong_pixels",
    "upscale_width",
    "upscale_height",
    "parameters",
    "steps",
    "random_seed",
]


def main(metrics: list[Path], summary: Path, *, labels: Sequence[Mapping[str, str]] = ()) -> None:
    """Write one row for each metrics file, in their order; the columns are always the same, and
    two more where a picture was taught in tiles.

    What a network does not have, such as the steps of one that was not trained here, stays empty.
    Versions are left to the metrics files.

    Parameters
    ----------
    metrics : list of Path
        JSON files written by ``evaluate.py``.
    summary : Path
        The CSV file to write.
    labels : sequence of mapping
        More columns for each row, where there are sweeps: sweep, base_field, combination and
        setting_{name}.
    """
    rows = [read_own_metrics(path) for path in metrics]
    tiled = TILE_COLUMNS if any("tiles" in row for row in rows) else ()
    table = pd.DataFrame(rows, columns=[*COLUMNS, *tiled])
    # A column with gaps would turn its whole numbers into 53.0.
    counts = [*COUNTS, "tiles"] if tiled else COUNTS
    table[counts] = table[counts].astype("Int64")
    table = pd.concat([table, pd.DataFrame(list(labels), index=table.index[: len(labels)])], axis=1)
    write_atomically(summary, table.to_csv(index=False, lineterminator="\n").encode())


def read_own_metrics(path: Path, keys: Iterable[str] = ()) -> dict[str, Any]:
    """Read the numbers of a network, which lie in ``{image}/{field}/``.

    Parameters
    ----------
    path : Path
    keys : iterable of str
        What has to be in it.

    Raises
    ------
    InputError
        The file is missing or damaged, or holds the numbers of another network or image.
    """
    return read_json(path, keys, {"image": path.parent.parent.name, "field": path.parent.name})


if __name__ == "__main__":
    from entry.job import run_job

    run_job(
        main,
        snakemake,
        metrics=[Path(path) for path in snakemake.input.metrics],
        summary=Path(snakemake.output.summary),
        labels=snakemake.params.labels,
    )
