"""Comparison of a render with the source and with plain enlargements of the training image."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from neuralfield.images.image import ImageData
from neuralfield.images.metrics import as_seen, finite_db, gmsd, psnr_db
from neuralfield.images.resizing import resize_image

FILTERS = ("lanczos", "bicubic", "back_projection", "two_tone")
"""Methods to enlarge an image without a network; networks are compared with the best of them."""

_MEASURES = ("psnr_db", "gmsd")


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
