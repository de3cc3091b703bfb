"""Gather the numbers of every picture and network into one table."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from neuralfield.files import write_atomically

if TYPE_CHECKING:
    from job import snakemake

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


def main(metrics: list[Path], summary: Path) -> None:
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
    """
    rows = [json.loads(path.read_text()) for path in metrics]
    tiled = TILE_COLUMNS if any("tiles" in row for row in rows) else ()
    table = pd.DataFrame(rows, columns=[*COLUMNS, *tiled])
    # A column with gaps would turn its whole numbers into 53.0.
    counts = [*COUNTS, "tiles"] if tiled else COUNTS
    table[counts] = table[counts].astype("Int64")
    write_atomically(summary, table.to_csv(index=False, lineterminator="\n").encode())


if __name__ == "__main__":
    from job import run_job

    run_job(
        main,
        snakemake,
        metrics=[Path(path) for path in snakemake.input],
        summary=Path(snakemake.output[0]),
    )
