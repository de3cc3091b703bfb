"""Collect the numbers of every image and network in one table."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from entry.job import run_job
from entry.records import read_own_metrics
from neuralfield.system.files import write_atomically

COLUMNS = (
    *("image", "field", "width", "height", "psnr_db", "ssim", "wrong_pixels"),
    *("upscale_width", "upscale_height", "upscale_psnr_db", "upscale_uncorrected_psnr_db"),
    *("upscale_lanczos_psnr_db", "upscale_bicubic_psnr_db"),
    *("upscale_back_projection_psnr_db", "upscale_best_filter"),
    *("parameters", "residual_values", "steps", "train_seconds", "step_microseconds"),
    *("device", "engine", "precision", "random_seed"),
)
TILE_COLUMNS = ("tiles", "seam_psnr_db")
"""Further columns, which are present if an image was trained in tiles."""
COUNTS = [
    *("width", "height", "wrong_pixels", "upscale_width", "upscale_height"),
    *("parameters", "residual_values", "steps", "random_seed"),
]


def main(metrics: list[Path], summary: Path, *, labels: Sequence[Mapping[str, str]] = ()) -> None:
    """Write a CSV with one row for each metrics file of ``evaluate.py``, in their order.

    The columns are always the same, with two more if an image was trained in tiles. Numbers that a
    network does not have, such as the steps of an imported network, are empty. If there are sweeps,
    `labels` has further columns for each row: sweep, base_field, combination and setting_{name}.
    """
    rows = [read_own_metrics(path) for path in metrics]
    tiled = TILE_COLUMNS if any("tiles" in row for row in rows) else ()
    table = pd.DataFrame(rows, columns=[*COLUMNS, *tiled])
    # with another type, a column with gaps would have 53.0 instead of 53
    counts = [*COUNTS, "tiles"] if tiled else COUNTS
    table[counts] = table[counts].astype("Int64")
    table = pd.concat([table, pd.DataFrame(list(labels), index=table.index[: len(labels)])], axis=1)
    write_atomically(summary, table.to_csv(index=False, lineterminator="\n").encode())


if __name__ == "__main__":
    run_job(main)
