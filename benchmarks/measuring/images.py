"""Images for measurements of fidelity, and images in a folder."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from measuring import ROOT
from neuralfield.images import ImageData
from neuralfield.images.image_file import read_image
from neuralfield.images.resizing import resize_image

_RESOURCES = ROOT / "workflow" / "resources"
PHOTO = _RESOURCES / "savannah.png"
DRAWING = _RESOURCES / "lion_cub.png"
DRAWING_SIDE_PX = 200
_PHOTO_SIDE_PX = 768
_QUICK_SIDE_PX = 24
_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp")


def photo(path: Path, *, quick: bool) -> np.ndarray:
    """Return a colour image, reduced to a longer side of 768 pixels if it is larger."""
    return _values(path, _QUICK_SIDE_PX if quick else _PHOTO_SIDE_PX, "rgb")


def drawing(path: Path, *, quick: bool) -> np.ndarray:
    """Return a grey image, reduced to a longer side of 200 pixels if it is larger."""
    return _values(path, _QUICK_SIDE_PX if quick else DRAWING_SIDE_PX, "grey")


def images_in_folder(
    folder: Path, longest_px: int | None, factor: int
) -> Iterator[tuple[str, ImageData]]:
    """Yield the names and images of a folder, cropped to sides that are multiples of `factor`.

    An image whose longer side is above `longest_px` is first reduced to that side.
    """
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in _SUFFIXES:
            image = read_image(path)
            if longest_px is not None and max(image.width, image.height) > longest_px:
                image = resize_image(image, longest_px)
            width, height = (factor * (side // factor) for side in (image.width, image.height))
            yield path.stem, ImageData(image.pixels[:height, :width], image.mode, image.bit_depth)


def _values(path: Path, longer_px: int, mode: str) -> np.ndarray:
    """Return the values of an image file; float32, shape (height, width, channels)."""
    image = read_image(path, mode=mode)
    if max(image.width, image.height) > longer_px:
        image = resize_image(image, longer_px)
    return image.values()
