"""Collect the numbers of every image and network in one table."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from entry.job import run_job
from entry.records import read_own_metrics
from neuralfield.system.files import write_csv

COLUMNS = (
    *("image", "field", "width", "height", "psnr_db", "ssim", "wrong_pixels"),
    *("upscale_width", "upscale_height", "upscale_psnr_db", "upscale_uncorrected_psnr_db"),
    *("upscale_lanczos_psnr_db", "upscale_bicubic_psnr_db"),
    *("upscale_back_projection_psnr_db", "upscale_two_tone_psnr_db", "upscale_best_filter"),
    *("parameters", "residual_values", "stored_bytes", "bits_per_pixel"),
    *("steps", "train_seconds", "step_microseconds"),
    *("device", "engine", "precision", "random_seed"),
)
TILE_COLUMNS = ("tiles", "seam_psnr_db")
"""Further columns, which are present if an image was trained in tiles."""


def main(metrics: list[Path], summary: Path, *, labels: Sequence[Mapping[str, str]] = ()) -> None:
    """Write a CSV with one row for each metrics file of ``evaluate.py``, in their order.

    The columns are always the same, with two more if an image was trained in tiles. Numbers that a
    network does not have, such as the steps of an imported network, are empty. If there are sweeps,
    `labels` has further columns for each row: sweep, base_field, combination and setting_{name}.
    """
    rows = [read_own_metrics(path) for path in metrics]
    own = labels or [{}] * len(rows)
    tiled = TILE_COLUMNS if any("tiles" in row for row in rows) else ()
    names = [*COLUMNS, *tiled, *dict.fromkeys(name for label in own for name in label)]
    both = [row | dict(label) for row, label in zip(rows, own, strict=True)]
    write_csv(summary, names, ([row.get(name) for name in names] for row in both))


if __name__ == "__main__":
    run_job(main)
