"""Checks of arguments that are not settings of a network or a training."""

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from neuralfield.fields import ImageShape
from neuralfield.images.coordinates import Box
from neuralfield.images.image import target_size
from neuralfield.rendering.render import size_for_longer_side
from neuralfield.system.device import HOST, Array, Device, select_device
from neuralfield.system.errors import (
    ConfigError,
    InputError,
    MissingFileError,
    NeuralfieldError,
    WrongTypeError,
)
from neuralfield.system.settings import AUTO
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.table.samples import LARGEST_NUMBER

_MOST_SAMPLES = 1 << 16

_SECTION = re.compile(r"^(training\.|fields: |network: |classifier: )(?=.)")
"""Section of config.yaml in an error's location."""


@contextmanager
def argument_names() -> Iterator[None]:
    """Name arguments, in place of keys of config.yaml, in errors of this context."""
    try:
        yield
    except NeuralfieldError as error:
        where = _SECTION.sub("", error.where)
        where = "seed" if where == "random_seed" else where
        remedy = error.remedy.replace("training.", "")
        raise type(error)(where, error.found, error.expected, remedy) from error


def require_path(where: str, value: Any) -> Path:
    """Return the value as a path, or raise an error if it is not one."""
    if not isinstance(value, str | os.PathLike):
        raise WrongTypeError(where, repr(value), "a path")
    if str(value) == "" or "\0" in str(value):
        raise InputError(where, repr(value), "a path")
    return Path(value)


def require_output(where: str, value: Any) -> Path:
    """Return the path of a file to write, or raise an error if its folder does not exist."""
    path = require_path(where, value)
    if not path.parent.is_dir():
        found, remedy = f"{path}; no folder {path.parent}", "create it, or correct its name"
        raise MissingFileError(where, found, "a file in an existing folder", remedy)
    if path.name in ("", ".."):
        raise InputError(where, f"{path}, a folder", "a file", "add the name of a file")
    return path


def require_png(where: str, value: Any) -> Path:
    """Return the path of a PNG to write, or raise an error if its name does not end in .png."""
    path = require_output(where, value)
    if path.suffix.lower() != ".png":
        raise InputError(where, str(path), "a name that ends in .png")
    return path


def require(is_right: bool, where: str, value: Any, expected: str) -> None:
    """Raise an error that shows the value of an argument unless it is right."""
    if not is_right:
        raise ConfigError(where, repr(value), expected)


def plain(value: Any) -> Any:
    """Convert the NumPy types of a setting to Python's, which files can hold; lists to tuples."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    return tuple(map(plain, value)) if isinstance(value, list | tuple) else value


def as_array(where: str, values: Any) -> np.ndarray:
    """Return values as an array, or raise an error if rows differ in length."""
    try:
        return np.asarray(values)
    except ValueError as error:
        raise InputError(where, str(error), "rows of equal length") from error


def require_mapping(where: str, value: Any) -> None:
    """Raise an error unless the value is a mapping."""
    if not isinstance(value, Mapping):
        raise WrongTypeError(where, repr(value), "a mapping of settings to values")


def require_positive(where: str, value: Any, most: float = math.inf) -> None:
    """Raise an error unless the value is a positive number of at most `most`."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    expected = "a number > 0" if math.isinf(most) else f"a number > 0, at most {most:g}"
    require(is_number and 0 < value <= most, where, value, expected)


def require_box(box: Any) -> Box:
    """Return the part of an image to render, or raise an error if it is not a valid box."""
    left, top, right, bottom = floats(box, 4)
    is_box = 0 <= left < right <= 1 and 0 <= top < bottom <= 1
    expected = "(left, top, right, bottom) in [0, 1] with left < right and top < bottom"
    require(is_box, "box", box, expected)
    return left, top, right, bottom


def require_samples(samples: Any) -> None:
    """Raise an error unless the value is a number of samples per pixel or "auto"."""
    is_whole = isinstance(samples, int | np.integer) and not isinstance(samples, bool)
    is_count = is_whole and 1 <= int(samples) <= _MOST_SAMPLES
    is_auto = isinstance(samples, str) and samples == AUTO
    expected = f"a whole number from 1 to {_MOST_SAMPLES}, or 'auto'"
    require(is_count or is_auto, "samples", samples, expected)


def render_sides(
    model: Model | ImageShape, size: Any, box: Any, max_megapixels: float = 400.0
) -> tuple[int, int]:
    """Return the width and height of a render in pixels; see `ImageField.render`."""
    require_positive("max_megapixels", max_megapixels)
    left, top, right, bottom = box = require_box(box)
    if size is None:
        size = max(round(model.width * (right - left)), round(model.height * (bottom - top)), 1)
    width, height = target_size((1, 1), size)
    if not isinstance(size, Sequence):
        width, height = size_for_longer_side(model, width, box)
    require_megapixels("size", width, height, max_megapixels, "render fewer pixels")
    return width, height


def require_megapixels(
    where: str, width: int, height: int, max_megapixels: float, remedy: str
) -> None:
    """Raise an error if an image of this size is too large."""
    if width * height > 1e6 * max_megapixels:
        found, expected = f"{width:,} x {height:,} pixels", f"at most {max_megapixels:g} megapixels"
        raise InputError(where, found, expected, f"{remedy}, or raise max_megapixels")


def unit_values(where: str, array: np.ndarray) -> np.ndarray:
    """Return an array of floats, or raise an error unless all are from 0 to 1."""
    if not np.isfinite(array).all():
        count = int(array.size - np.isfinite(array).sum())
        raise InputError(where, f"NaN or infinity in {count:,} values", "finite values")
    lowest, highest = float(array.min()), float(array.max())
    if lowest < 0 or highest > 1:
        # all digits, because 1.0000001 is above 1, too
        found, remedy = f"values from {lowest!r} to {highest!r}", "divide by the value of white"
        is_near = lowest > -1e-3 and highest < 1 + 1e-3
        remedy = f"use np.clip({where}, 0, 1)" if is_near else remedy
        raise InputError(where, found, "values from 0 to 1", remedy)
    return array


def floats(values: Any, count: int) -> list[float]:
    """Return the values as `count` floats; all NaN if they are not `count` numbers."""
    try:
        found = [float(value) for value in values]
    except (TypeError, ValueError):
        found = []
    return found if len(found) == count else [math.nan] * count


def positions_on_device(xy: Any, dtype: str) -> tuple[Array, Device]:
    """Return positions as an array of floats, and the device whose memory holds it."""
    is_on_gpu = hasattr(xy, "__cuda_array_interface__")
    device = select_device("gpu") if is_on_gpu else HOST
    points = device.asarray(xy) if is_on_gpu else as_array("xy", xy)
    if points.dtype.kind not in "fiu":
        raise WrongTypeError("xy", f"an array of {points.dtype}", "an array of numbers")
    if points.ndim == 0 or points.shape[-1] != 2:
        found, expected = f"an array of shape {points.shape}", "(..., 2), each row x and y"
        raise InputError("xy", found, expected)
    with np.errstate(over="ignore"):
        points = points.astype(dtype)
    if not (device.xp.abs(points) <= LARGEST_NUMBER).all():
        found = "NaN, infinity or a number too large"
        raise InputError("xy", found, f"numbers of at most {LARGEST_NUMBER:g} in size")
    return points, device
