"""Measure the quality of a network at the size of its training image and at that of the source."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from entry.image_network import read_own
from entry.job import run_job
from entry.records import names_of, read_record, storage, write_metrics
from neuralfield.images import (
    ImageData,
    read_image,
    read_made_image,
    resize_image,
    write_image,
)
from neuralfield.images.image import MODES
from neuralfield.images.metrics import as_seen, finite_db, gmsd, psnr_db, ssim, wrong_pixels
from neuralfield.images.page import find_page
from neuralfield.rendering.render import render
from neuralfield.system.device import select_device
from neuralfield.tasks.image.image_model import Model

FILTERS = ("lanczos", "bicubic", "back_projection", "two_tone")
"""Methods to enlarge an image without a network; networks are compared with the best of them."""

_MEASURES = ("psnr_db", "gmsd")


def main(
    network: Model,
    model: Path,
    resized: Path,
    source: Path,
    record: Path | None,
    metrics: Path,
    comparison: Path,
    *,
    threshold: float = 0.5,
    page: bool | Mapping[str, bool | float] = False,
    max_megapixels: float = 4.0,
    max_source_megapixels: float = 100.0,
    device: str = "auto",
    threads: int = 1,
) -> None:
    """Compare renders with the training image and with the source; write the numbers as JSON.

    If the source is larger than the training image, the network is also rendered at the source's
    size, and the training image is enlarged by the `FILTERS`. All images are rounded to the
    source's levels before they are compared, and are written into the folder `comparison`, which
    has only the redraw if the source is not larger. If a residual corrects the renders, the network
    is also measured without the residual at the source's size.

    `network` was read from `model`, and `record` is the training.json, or None if the network was
    not trained here. In a black-and-white source, values from `threshold` on are white. The
    source is turned and cropped by `page` as it was before the training. A source
    above `max_megapixels` is reduced first, and a source above `max_source_megapixels` is refused.
    """
    training = read_record(record, model) if record else {}
    place = select_device(device)
    # reducing a black-and-white source may yield greys, so the network's channels give the mode
    training_image = read_made_image(resized, MODES[network.channels])
    original = read_image(
        source, mode=network.mode, threshold=threshold, max_megapixels=max_source_megapixels
    )
    if (found := find_page(original, page)) is not None:
        original = found.image

    def render_at(width: int, height: int, model: Model = network) -> np.ndarray:
        return render(model, width, height, device=place, threads=threads)

    rendered = render_at(training_image.width, training_image.height)
    images = enlargements(
        training_image, reference_from(original, training_image.mode, max_megapixels), render_at
    )
    if not images:
        images = {
            "redraw": ImageData.from_values(rendered, training_image.mode, training_image.bit_depth)
        }
    comparison.mkdir(parents=True, exist_ok=True)
    for name, pixels in images.items():
        write_image(comparison / f"{name}.png", pixels)

    seen, truth = as_seen(rendered), as_seen(training_image.values())
    residual_values = None if network.residual is None else network.residual.size
    values = network.parameter_count + (residual_values or 0)
    numbers: dict[str, Any] = {
        **names_of(metrics.parent),
        "width": training_image.width,
        "height": training_image.height,
        "psnr_db": finite_db(psnr_db(seen, truth)),
        "ssim": ssim(seen, truth),
        "wrong_pixels": wrong_pixels(seen, truth) if network.mode == "bilevel" else None,
        **upscale_numbers(images),
        "upscale_uncorrected_psnr_db": None,
        "residual_values": residual_values,
        **storage(values, training_image.width, training_image.height),
        "parameters": network.parameter_count,
    }
    reference = images.get("source")
    if residual_values is not None and reference is not None:
        size = reference.width, reference.height
        alone = render_at(*size, replace(network, residual=None))
        pixels = ImageData.from_values(alone, training_image.mode, reference.bit_depth)
        uncorrected_db = psnr_db(as_seen(pixels.values()), as_seen(reference.values()))
        numbers["upscale_uncorrected_psnr_db"] = finite_db(uncorrected_db)
    write_metrics(metrics, numbers, training)


def own_network(job: Any) -> dict[str, Any]:
    """Return the network of a job, which has to be the one that its params describe."""
    files = Path(job.input.model), Path(job.input.facts)
    return {"network": read_own(*files, job.params.field, job.params.training)}


def reference_from(original: ImageData, mode: str, max_megapixels: float) -> ImageData:
    """Return the source in the mode of the training image, reduced by a box filter if too large."""
    pixels = original.converted(mode)
    shrink = math.sqrt(max_megapixels * 1e6 / (pixels.width * pixels.height))
    if shrink >= 1:
        return pixels
    size = [max(int(side * shrink), 1) for side in (pixels.width, pixels.height)]
    return resize_image(pixels, size, "box")


def enlargements(
    training_image: ImageData, reference: ImageData, render_at: Callable[[int, int], np.ndarray]
) -> dict[str, ImageData]:
    """Return the source and all enlargements to its size, by name; empty if it is not larger."""
    size = (reference.width, reference.height)
    if max(size) <= max(training_image.width, training_image.height):
        return {}
    return {
        "source": reference,
        "redraw": ImageData.from_values(render_at(*size), training_image.mode, reference.bit_depth),
        **{name: resize_image(training_image, size, name) for name in FILTERS},
    }


def upscale_numbers(images: dict[str, ImageData]) -> dict[str, Any]:
    """Return the metrics of each enlargement against the source; all None without a larger one."""
    prefixes = {"redraw": "upscale"} | {name: f"upscale_{name}" for name in FILTERS}
    source = images.get("source")
    if source is None:
        keys = [f"{prefix}_{measure}" for prefix in prefixes.values() for measure in _MEASURES]
        return dict.fromkeys([*keys, "upscale_best_filter", "upscale_width", "upscale_height"])
    truth, numbers = as_seen(source.values()), {}
    for name, prefix in prefixes.items():
        values = as_seen(images[name].values())
        numbers[f"{prefix}_psnr_db"] = finite_db(psnr_db(values, truth))
        numbers[f"{prefix}_gmsd"] = gmsd(values, truth)
    return {
        **numbers,
        "upscale_best_filter": max(FILTERS, key=lambda name: numbers[f"upscale_{name}_psnr_db"]),
        "upscale_width": source.width,
        "upscale_height": source.height,
    }


if __name__ == "__main__":
    run_job(main, own_network)
