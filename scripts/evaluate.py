"""Measure how good a network is, at the size it was trained on and at its source's own size."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from entry.image_network import ExpectedNetwork
from entry.job import run_job
from entry.records import read_record, write_metrics
from neuralfield.images import (
    Picture,
    picture_digest,
    read_made_picture,
    read_picture,
    require_picture,
    resize_picture,
    write_picture,
)
from neuralfield.images.metrics import as_seen, finite_db, psnr_db, ssim, wrong_pixels
from neuralfield.rendering.render import render
from neuralfield.system.device import select_device
from neuralfield.tasks.image.image_model import Model, load_model


def main(
    model: Path,
    resized: Path,
    source: Path,
    record: Path | None,
    metrics: Path,
    comparison: Path,
    *,
    image: str,
    field: str,
    expected: ExpectedNetwork | None = None,
    threshold: float = 0.5,
    max_megapixels: float = 4.0,
    max_source_megapixels: float = 100.0,
    device: str = "auto",
    threads: int = 1,
) -> None:
    """Compare renders with the training image and with the source; write the numbers.

    Where the source is larger than the training image, the network is rendered at the source's own
    size too, and next to it stand the Lanczos and bicubic enlargements of the training image. All
    of these are rounded to the source's levels before they are compared, and written as source,
    redraw, lanczos and bicubic.png. Without a larger source there is only the redraw, at the
    training size.

    Parameters
    ----------
    model, resized, source : Path
        The network, its training image, and the image that was reduced to that.
    record : Path or None
        The training.json; None where nothing was trained.
    metrics : Path
        JSON to write.
    comparison : Path
        The folder for the images.
    image, field : str
        Their names, for the record.
    expected : ExpectedNetwork, optional
        The network that the settings describe: another one, or another image, is refused.
    threshold : float
        Where black ends and white begins in a black-and-white source.
    max_megapixels : float
        A larger source is reduced to this many million pixels before anything is compared.
    max_source_megapixels : float
        A larger source is refused.
    """
    network = expected.load(model) if expected else load_model(model)
    assert isinstance(network, Model)
    training = {}
    if record:
        own = (expected.training, network.parameter_count) if expected else (None, None)
        training = read_record(record, model, *own)
    place = select_device(device)
    # A black-and-white source may have been reduced to greys: the channels are those of training.
    taught = read_made_picture(resized, {1: "grey", 3: "rgb", 4: "rgba"}[network.channels])
    if expected:
        digest = picture_digest(taught.values())
        require_picture(resized, digest, expected.facts, expected.facts_path)
    original = read_picture(
        source, mode=network.mode, threshold=threshold, max_megapixels=max_source_megapixels
    )

    def draw(width: int, height: int) -> np.ndarray:
        return render(network, width, height, device=place, threads=threads)

    redrawn = draw(taught.width, taught.height)
    pictures = enlargements(taught, reference_from(original, taught.mode, max_megapixels), draw)
    if not pictures:
        pictures = {"redraw": Picture.from_values(redrawn, taught.mode, taught.bit_depth)}
    comparison.mkdir(parents=True, exist_ok=True)
    for name, picture in pictures.items():
        write_picture(comparison / f"{name}.png", picture)

    seen, truth = as_seen(redrawn), as_seen(taught.values())
    numbers = {
        "image": image,
        "field": field,
        "width": taught.width,
        "height": taught.height,
        "psnr_db": finite_db(psnr_db(seen, truth)),
        "ssim": ssim(seen, truth),
        "wrong_pixels": wrong_pixels(seen, truth) if network.mode == "bilevel" else None,
        **upscale_numbers(pictures),
    }
    write_metrics(metrics, numbers, training, parameters=network.parameter_count)


def reference_from(original: Picture, mode: str, max_megapixels: float) -> Picture:
    """Return the source in the mode of the training image, reduced by a box filter if too large."""
    picture = original.converted(mode)
    shrink = math.sqrt(max_megapixels * 1e6 / (picture.width * picture.height))
    if shrink >= 1:
        return picture
    size = [max(int(side * shrink), 1) for side in (picture.width, picture.height)]
    return resize_picture(picture, size, "box")


def enlargements(
    taught: Picture, reference: Picture, draw: Callable[[int, int], np.ndarray]
) -> dict[str, Picture]:
    """Return the source and three ways to its size, by name; nothing if it is not larger."""
    size = (reference.width, reference.height)
    if max(size) <= max(taught.width, taught.height):
        return {}
    return {
        "source": reference,
        "redraw": Picture.from_values(draw(*size), taught.mode, reference.bit_depth),
        "lanczos": resize_picture(taught, size, "lanczos"),
        "bicubic": resize_picture(taught, size, "bicubic"),
    }


def upscale_numbers(pictures: dict[str, Picture]) -> dict[str, Any]:
    """Return how near each way comes to the source; all None if it is not larger."""
    source = pictures.get("source")
    keys = {"redraw": "upscale_psnr_db"}
    keys |= {name: f"upscale_{name}_psnr_db" for name in ("lanczos", "bicubic")}
    if source is None:
        return dict.fromkeys([*keys.values(), "upscale_width", "upscale_height"])
    truth = as_seen(source.values())
    return {
        **{
            key: finite_db(psnr_db(as_seen(pictures[name].values()), truth))
            for name, key in keys.items()
        },
        "upscale_width": source.width,
        "upscale_height": source.height,
    }


if __name__ == "__main__":
    run_job(
        main,
        lambda job: {
            "expected": ExpectedNetwork.of_job(job),
            "field": job.wildcards.field,
            "record": next(map(Path, job.input.record), None),
        },
    )
