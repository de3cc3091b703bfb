"""Measure how good the networks of a picture's tiles are together, on the whole and at seams."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from entry.image_network import ExpectedNetwork
from evaluate import TRAINING_KEYS, read_record, upscale_numbers
from neuralfield.images import Overview, Picture, read_window, write_picture
from neuralfield.images.metrics import RunningMetrics, as_seen
from neuralfield.rendering.render import render_bands
from neuralfield.system.device import select_device
from neuralfield.system.files import write_atomically
from neuralfield.tasks.image.mosaic import Mosaic

if TYPE_CHECKING:
    from entry.job import snakemake


def main(
    mosaic: Path,
    pixels: Path,
    expected: ExpectedNetwork,
    record: Path,
    metrics: Path,
    comparison_dir: Path,
    *,
    image: str,
    field: str,
    overview_megapixels: float = 4.0,
    device: str = "auto",
    threads: int = 1,
) -> None:
    """Compare the redraw at the picture's own size with the picture, band by band.

    Parameters
    ----------
    mosaic : Path
        The networks, see ``gather_tiles.py``.
    pixels : Path
        The image, see ``unpack.py``.
    expected : ExpectedNetwork
        What the settings say of the networks: others are refused.
    record : Path
        JSON that says how the networks were trained.
    metrics : Path
        The JSON file to write: as `evaluate.py` does, and ``tiles`` and ``seam_psnr_db``, the PSNR
        of the pixels near the edges of tiles (see `Tiling.columns_at_seams`).
    comparison_dir : Path
        The folder for redraw.png, which is reduced like the overview of the picture.
    image, field : str
        Their names, for the record.
    overview_megapixels : float
    """
    networks = expected.load(mosaic)
    assert isinstance(networks, Mosaic)
    training = read_record(record, mosaic, expected.training, networks.parameter_count)
    is_what = expected.facts["resized"]
    tiling, mode = networks.tiling, is_what["mode"]
    width, height = tiling.width, tiling.height
    overview = Overview(width, height, networks.channels, overview_megapixels)
    measured = RunningMetrics()
    columns_at_seams = tiling.columns_at_seams(np.arange(width) + 0.5)
    top = 0
    for band in render_bands(
        networks, width, height, device=select_device(device), threads=threads
    ):
        bottom = top + len(band)
        truth = read_window(pixels, mode, is_what["bit_depth"], 0, top, width, bottom).values()
        rows_at_seams = tiling.rows_at_seams(np.arange(top, bottom) + 0.5)
        at_seams = np.logical_or(rows_at_seams[:, None], columns_at_seams)
        measured.add(as_seen(band), as_seen(truth), at_seams)
        overview.add(band)
        top = bottom
    comparison_dir.mkdir(parents=True, exist_ok=True)
    overview_mode = "grey" if mode == "bilevel" else mode
    redraw = Picture.from_values(overview.values(), overview_mode, 8)
    write_picture(comparison_dir / "redraw.png", redraw)
    numbers = {
        "image": image,
        "field": field,
        "width": width,
        "height": height,
        "psnr_db": measured.psnr_db(),
        "seam_psnr_db": measured.seam_psnr_db(),
        "ssim": measured.ssim(),
        "wrong_pixels": measured.wrong_pixels if mode == "bilevel" else None,
        **upscale_numbers({}),
        "tiles": tiling.count,
        "parameters": networks.parameter_count,
        **{key: training.get(key) for key in TRAINING_KEYS},
        "sha256": training.get("sha256", {}),
    }
    write_atomically(metrics, (json.dumps(numbers, indent=2, allow_nan=False) + "\n").encode())


if __name__ == "__main__":
    from entry.job import run_job

    run_job(
        main,
        snakemake,
        mosaic=Path(snakemake.input.mosaic),
        pixels=Path(snakemake.input.pixels),
        expected=ExpectedNetwork.of_job(snakemake),
        record=Path(snakemake.input.record),
        metrics=Path(snakemake.output.metrics),
        comparison_dir=Path(snakemake.output.comparison),
        image=snakemake.wildcards.image,
        field=snakemake.wildcards.field,
        overview_megapixels=snakemake.params.overview_megapixels,
        device=snakemake.params.device,
        threads=snakemake.threads,
    )
