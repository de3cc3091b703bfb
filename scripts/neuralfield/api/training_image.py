"""Conversion of arrays, Pillow images and files to training images."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from neuralfield.api.arguments import (
    require_megapixels,
    require_path,
    require_positive,
    unit_values,
)
from neuralfield.images import convert_values, read_image, resize_image
from neuralfield.images.colour import log
from neuralfield.images.image import (
    CHANNELS,
    MODES,
    ImageData,
    image_of_pixels,
    require_mode,
    simplest_pixels,
    target_size,
)
from neuralfield.images.image_file import pixels_of_pillow
from neuralfield.images.jpeg_file import read_jpeg
from neuralfield.images.kind import Kind, kind_of
from neuralfield.images.page import find_page
from neuralfield.images.restoring import restore
from neuralfield.system.device import available_cores
from neuralfield.system.errors import InputError, WrongTypeError

WHERE = "image"
_EXPECTED = "an array of shape (height, width) or (height, width, 1, 3 or 4)"
_REDUCE = "reduce it first"
_TYPES = "bool, uint8, uint16, or floats from 0 to 1"


@dataclass(frozen=True, eq=False)
class TrainingImage:
    """The values that a network is fitted to."""

    values: np.ndarray  # float32, shape (height, width, channels); in [0, 1]
    mode: str  # mode of the image before it was reduced
    kind: Kind


def training_image(
    image: Any,
    *,
    mode: str = "auto",
    size: int | Sequence[int] | None = None,
    max_megapixels: float = 100.0,
    page: bool | Mapping[str, bool | float] = False,
    restoration: bool | Mapping[str, float | str] = False,
) -> TrainingImage:
    """Read an image as `neuralfield.fit` describes it, turn and crop it, reduce and restore it."""
    require_positive("max_megapixels", max_megapixels)
    require_mode(mode, "auto")
    exact, path = None, None
    if isinstance(image, str | os.PathLike):
        path = require_path(WHERE, image)
        source = read_image(path, mode=mode, max_megapixels=max_megapixels)
    elif isinstance(image, Image.Image):
        require_megapixels(WHERE, *image.size, max_megapixels, _REDUCE)
        source = image_of_pixels(simplest_pixels(pixels_of_pillow(WHERE, image)), mode)
    else:
        array = _array_of(image, max_megapixels)
        if array.dtype.kind == "f":
            exact = unit_values(WHERE, array).astype(np.float32)
            array = ImageData.from_values(exact, MODES[array.shape[2]], 16).pixels
        source = image_of_pixels(array, mode)
    if (found := find_page(source, page)) is not None:
        log.info("%s", found)
        source, exact = found.image, None
    sides = target_size((source.width, source.height), size)
    require_megapixels("size", *sides, max_megapixels, "train at a smaller size")
    reduced = resize_image(source, size, mode=mode)
    jpeg = None
    if path is not None and restoration is not False:
        jpeg = read_jpeg(path, reduced, source.width / reduced.width)
    restored = restore(reduced, restoration, jpeg=jpeg, threads=available_cores())
    if restored is not None:
        log.info("restored, because it is %s", restored)
        return TrainingImage(restored.image.values(), restored.image.mode, Kind.LINE_ART)
    values = reduced.values()
    if exact is not None and size is None and source.mode != "bilevel":
        values = convert_values(exact, source.channels)  # because levels are rounded
    return TrainingImage(values, source.mode, kind_of(reduced))


def _array_of(image: Any, max_megapixels: float) -> np.ndarray:
    """Return an image as an array with a channel axis, or raise an error for unsupported arrays."""
    if not hasattr(image, "__array__") and not hasattr(image, "__cuda_array_interface__"):
        found = f"a value of type {type(image).__name__}"
        remedy = "use numpy.array(image)" if isinstance(image, list | tuple) else ""
        expected = "a NumPy or CuPy array, a PIL image, or a path"
        raise WrongTypeError(WHERE, found, expected, remedy)
    if np.ma.is_masked(image):
        found = f"a masked array, with {np.ma.count_masked(image):,} masked values"
        raise InputError(WHERE, found, "an array without masked values", "use image.filled(0.5)")
    array = image.get() if hasattr(image, "__cuda_array_interface__") else np.asarray(image)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)  # FITS and TIFF: big-endian
    if array.dtype.kind not in "fb" and array.dtype not in (np.uint8, np.uint16):
        remedy = "divide levels by the largest one" if array.dtype.kind in "iu" else ""
        raise WrongTypeError(WHERE, f"an array of {array.dtype}", _TYPES, remedy)
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in CHANNELS.values()):
        is_first = array.ndim == 3 and array.shape[0] in CHANNELS.values()
        remedy = "channels come last: use image.transpose(1, 2, 0)" if is_first else ""
        raise InputError(WHERE, f"an array of shape {array.shape}", _EXPECTED, remedy)
    if array.size == 0:
        raise InputError(WHERE, f"no pixels, as its shape is {array.shape}", _EXPECTED)
    require_megapixels(WHERE, array.shape[1], array.shape[0], max_megapixels, _REDUCE)
    array = array.reshape(*array.shape[:2], -1)
    return array * np.uint8(255) if array.dtype == bool else np.ascontiguousarray(array)
