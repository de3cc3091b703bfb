"""Measure the quality of the networks of an image's tiles, in the whole image and at seams."""

from pathlib import Path

import numpy as np

from entry.job import run_job
from entry.records import names_of, read_record, storage, write_metrics
from evaluate import own_network
from neuralfield.images import Overview, PixelFile, read_facts, write_image
from neuralfield.images.enlargements import upscale_numbers
from neuralfield.images.metrics import RunningMetrics, as_seen
from neuralfield.rendering.render import render_bands
from neuralfield.system.device import select_device
from neuralfield.tasks.image.mosaic import Mosaic


def main(
    network: Mosaic,
    model: Path,
    pixels: Path,
    facts: Path,
    record: Path,
    metrics: Path,
    comparison: Path,
    *,
    overview_megapixels: float = 4.0,
    device: str = "auto",
    threads: int = 1,
) -> None:
    """Compare the render at the image's own size with the image, band by band.

    `network` was read from `model`, see ``gather_tiles.py``; for `pixels` and `facts` see
    ``unpack.py``. `metrics` has the same form as that of ``evaluate.py``, with the
    additional keys ``tiles`` and ``seam_psnr_db``, the PSNR of the pixels near the edges of tiles
    (see `Tiling.at_seams`). The render is written to redraw.png in the folder `comparison`, reduced
    like the overview of the image.
    """
    training = read_record(record, model)
    is_what = read_facts(facts)["resized"]
    tiling, whole = network.tiling, PixelFile(pixels, is_what["mode"], is_what["bit_depth"])
    width, height = tiling.width, tiling.height
    overview = Overview(width, height, network.channels, overview_megapixels)
    measured = RunningMetrics(threads)
    columns_at_seams = tiling.at_seams(tiling.columns, np.arange(width) + 0.5)
    top = 0
    place = select_device(device)
    for band in render_bands(network, width, height, device=place, threads=threads):
        bottom = top + len(band)
        truth = whole.window(0, top, width, bottom).values()
        rows_at_seams = tiling.at_seams(tiling.rows, np.arange(top, bottom) + 0.5)
        at_seams = np.logical_or(rows_at_seams[:, None], columns_at_seams)
        measured.add(as_seen(band), as_seen(truth), at_seams)
        overview.add(band)
        top = bottom
    comparison.mkdir(parents=True, exist_ok=True)
    write_image(comparison / "redraw.png", overview.picture(whole.mode))
    numbers = {
        **names_of(metrics.parent),
        "width": width,
        "height": height,
        "psnr_db": measured.psnr_db(),
        "seam_psnr_db": measured.seam_psnr_db(),
        "ssim": measured.ssim(),
        "wrong_pixels": measured.wrong_pixels if whole.mode == "bilevel" else None,
        **upscale_numbers({}),
        "tiles": tiling.count,
        **storage(2 * network.parameter_count, width, height),
        "parameters": network.parameter_count,
    }
    write_metrics(metrics, numbers, training)


if __name__ == "__main__":
    run_job(main, own_network)
