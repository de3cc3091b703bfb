"""Checks arguments that are no settings of a network or a training."""

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from neuralfield.api.errors import InvalidInputError, InvalidSettingError, WrongTypeError
from neuralfield.images.coordinates import Box
from neuralfield.rendering.render import size_for_longer_side
from neuralfield.system.device import HOST, Array, Device, select_device
from neuralfield.system.settings import AUTO, settings_of
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.training_settings import ImageExecution


def require_path(where: str, value: Any) -> Path:
    """Return a path; what is none is refused."""
    if not isinstance(value, str | os.PathLike):
        raise WrongTypeError(where, repr(value), "a path")
    return Path(value)


def require_function(where: str, value: Any) -> None:
    """Refuse what cannot be called."""
    if value is not None and not callable(value):
        raise WrongTypeError(where, repr(value), "a function that takes a dict")


def require_mapping(where: str, value: Any) -> None:
    """Refuse what has no keys."""
    if not isinstance(value, Mapping):
        raise WrongTypeError(where, repr(value), "a mapping of settings to values")


def require_execution_setting(name: str, value: Any, place: str | None = None) -> None:
    """Refuse a value that the settings of how a training is run do not allow."""
    declared = settings_of(ImageExecution)[name]
    if not declared.allows(value):
        raise InvalidSettingError(place or name, repr(value), declared.expectation)


def require_positive(where: str, value: Any) -> None:
    """Refuse what is no positive number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise InvalidSettingError(where, repr(value), "a number > 0")


def require_box(box: Any) -> Box:
    """Return the part of an image that a render shows; what is none is refused."""
    try:
        left, top, right, bottom = (float(side) for side in box)
    except (TypeError, ValueError):
        left = top = right = bottom = math.nan
    if not (0 <= left < right <= 1 and 0 <= top < bottom <= 1):
        expected = "(left, top, right, bottom) in [0, 1] with left < right and top < bottom"
        raise InvalidSettingError("box", repr(box), expected)
    return left, top, right, bottom


def require_samples(samples: Any) -> None:
    """Refuse what is neither a number of samples nor "auto"."""
    is_count = isinstance(samples, int) and samples >= 1
    if not (is_count or (isinstance(samples, str) and samples == AUTO)):
        raise InvalidSettingError("samples", repr(samples), "a whole number >= 1, or 'auto'")


def render_sides(
    model: Model, size: Any, box: Any, max_megapixels: float = 400.0
) -> tuple[int, int]:
    """Return width and height of a render in pixels; see `ImageField.render`."""
    require_positive("max_megapixels", max_megapixels)
    left, top, right, bottom = box = require_box(box)
    if size is None:
        size = max(round(model.width * (right - left)), round(model.height * (bottom - top)), 1)
    if not isinstance(size, int | np.integer):
        width, height = require_width_and_height(size)
    elif size < 1:
        raise InvalidInputError("size", size, "a whole number of pixels >= 1")
    else:
        width, height = size_for_longer_side(model, int(size), box)
    if width * height > 1e6 * max_megapixels:
        found = f"{width:,} x {height:,} pixels"
        expected = f"at most {max_megapixels:g} megapixels"
        raise InvalidInputError("size", found, expected, "render less, or raise max_megapixels")
    return width, height


def require_width_and_height(size: Any) -> tuple[int, int]:
    """Return the sides of a render in pixels; what is no pair of whole numbers is refused."""
    sides = tuple(size) if isinstance(size, Sequence | np.ndarray) else ()
    is_whole = all(isinstance(side, int | np.integer) and side >= 1 for side in sides)
    if len(sides) != 2 or not is_whole:
        expected = "the longer side in pixels, or (width, height)"
        raise InvalidInputError("size", repr(size), expected)
    return int(sides[0]), int(sides[1])


def positions_on_device(xy: Any) -> tuple[Array, Device]:
    """Return positions as an array, and the device that it is on."""
    if hasattr(xy, "__cuda_array_interface__"):
        device = select_device("gpu")
        points = device.asarray(xy)
    else:
        device, points = HOST, np.asarray(xy)
    if points.dtype.kind not in "fiu":
        raise WrongTypeError("xy", f"an array of {points.dtype}", "an array of numbers")
    if points.ndim == 0 or points.shape[-1] != 2:
        found, expected = f"an array of shape {points.shape}", "(..., 2), each row x and y"
        raise InvalidInputError("xy", found, expected)
    return points, device
