"""Measure the quality of a network at the size of its training image and at that of the source."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from entry.image_network import read_coded, read_own
from entry.job import run_job
from entry.records import names_of, read_record, storage, write_metrics
from neuralfield.images import (
    ImageData,
    read_image,
    read_made_image,
    resize_image,
    write_image,
)
from neuralfield.images.codecs import Rate, rates
from neuralfield.images.enlargements import enlargements, reference_from, upscale_numbers
from neuralfield.images.image import MODES
from neuralfield.images.metrics import as_seen, finite_db, psnr_db, ssim, wrong_pixels
from neuralfield.images.page import find_page
from neuralfield.rendering.render import render
from neuralfield.system.device import select_device
from neuralfield.system.files import write_csv
from neuralfield.tasks.image.image_model import Model


def main(
    network: Model | ImageData,
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

    A coded image, which is given decoded as `network`, is enlarged by Lanczos. If it has at most
    `max_megapixels`, rates.csv in the folder `comparison` has what other codecs reach.

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

    def render_at(width: int, height: int, shown: Model | ImageData = network) -> np.ndarray:
        if isinstance(shown, ImageData):
            return resize_image(shown, [width, height], "lanczos").values()
        return render(shown, width, height, device=place, threads=threads)

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
    width, height = training_image.width, training_image.height
    if isinstance(network, ImageData):
        residual_values, parameters = None, training["parameters"]
        size = storage(model.stat().st_size, width, height)
        if width * height <= 1e6 * max_megapixels:
            write_csv(comparison / "rates.csv", Rate._fields, rates(training_image))
    else:
        residual_values = None if network.residual is None else network.residual.size
        parameters = network.parameter_count
        size = storage(2 * (parameters + (residual_values or 0)), width, height)
    numbers: dict[str, Any] = {
        **names_of(metrics.parent),
        "width": width,
        "height": height,
        "psnr_db": finite_db(psnr_db(seen, truth)),
        "ssim": ssim(seen, truth),
        "wrong_pixels": wrong_pixels(seen, truth) if network.mode == "bilevel" else None,
        **upscale_numbers(images),
        "upscale_uncorrected_psnr_db": None,
        "residual_values": residual_values,
        **size,
        "parameters": parameters,
    }
    reference = images.get("source")
    if isinstance(network, Model) and residual_values is not None and reference is not None:
        alone = render_at(reference.width, reference.height, replace(network, residual=None))
        pixels = ImageData.from_values(alone, training_image.mode, reference.bit_depth)
        uncorrected_db = psnr_db(as_seen(pixels.values()), as_seen(reference.values()))
        numbers["upscale_uncorrected_psnr_db"] = finite_db(uncorrected_db)
    write_metrics(metrics, numbers, training)


def own_network(job: Any) -> dict[str, Any]:
    """Return the network of a job, which has to be the one that its params describe."""
    files = Path(job.input.model), Path(job.input.facts)
    if files[0].suffix == ".nfz":
        return {"network": read_coded(*files)}
    return {"network": read_own(*files, job.params.field, job.params.training)}


if __name__ == "__main__":
    run_job(main, own_network)
