"""The images that fidelity is measured on."""

from pathlib import Path

import numpy as np

from measuring import ROOT
from neuralfield.images.reading import read_image
from neuralfield.images.resizing import resize_image

_RESOURCES = ROOT / "workflow" / "resources"
PHOTO = _RESOURCES / "savannah.png"
DRAWING = _RESOURCES / "lion_cub.png"
DRAWING_SIDE_PX = 200
_PHOTO_SIDE_PX = 768
_QUICK_SIDE_PX = 24


def photo(path: Path, *, quick: bool) -> np.ndarray:
    """A colour image, its longer side reduced to 768 pixels if it is larger."""
    return _values(path, _QUICK_SIDE_PX if quick else _PHOTO_SIDE_PX, "rgb")


def drawing(path: Path, *, quick: bool) -> np.ndarray:
    """A grey image, its longer side reduced to 200 pixels if it is larger."""
    return _values(path, _QUICK_SIDE_PX if quick else DRAWING_SIDE_PX, "grey")


def _values(path: Path, longer_px: int, mode: str) -> np.ndarray:
    """Values of an image file; float32, shape (height, width, channels)."""
    image = read_image(path, mode=mode)
    if max(image.width, image.height) > longer_px:
        image = resize_image(image, longer_px)
    return image.values()
