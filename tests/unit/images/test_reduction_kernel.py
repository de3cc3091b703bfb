"""Drawings that were reduced by other kernels than the mean over a pixel's square."""

import numpy as np
import pytest
from PIL import Image

from neuralfield.images import ImageData
from neuralfield.images.metrics import psnr_db
from neuralfield.images.restoring import restore

_SIDE_PX, _FACTOR = 96, 5


def _drawing() -> np.ndarray:
    """Return rings and bars of ink in black and white; float32, shape (side, side) * factor."""
    side = _SIDE_PX * _FACTOR
    y, x = (np.mgrid[:side, :side] + 0.5) / _FACTOR
    radius = np.hypot(x - 48, y - 50)
    is_ink = (np.abs(radius - 18) < 2.5) | (np.abs(radius - 32) < 1.2) | (radius < 7)
    for place in range(4, 92, 12):
        is_ink |= (np.abs(y - place - 0.13 * x) < 0.9) & (radius > 38)
    return (~is_ink).astype(np.float32)


def _reduced(kernel: Image.Resampling, *, in_8_bits: bool = True) -> ImageData:
    """Reduce the drawing; in 8 bits, Pillow clips values between its two passes, too."""
    drawing = _drawing()
    whole = Image.fromarray((255 * drawing).astype(np.uint8) if in_8_bits else 255 * drawing)
    values = np.asarray(whole.resize((_SIDE_PX, _SIDE_PX), kernel), np.float32).clip(0, 255)
    return ImageData.from_values(values[..., None] / 255, "grey", 8)


@pytest.mark.parametrize("in_8_bits", [True, False])
@pytest.mark.parametrize("name", ["Lanczos", "bicubic", "Hamming"])
def test_a_drawing_becomes_what_the_box_filter_makes_of_it(name, in_8_bits):
    image = _reduced(Image.Resampling[name.upper()], in_8_bits=in_8_bits)
    restored = restore(image)
    assert restored is not None
    assert str(restored).startswith(f"reduced by a {name} kernel: paper 255, ink 0")
    truth = _drawing().reshape(_SIDE_PX, _FACTOR, _SIDE_PX, _FACTOR).mean((1, 3))
    before, after = (psnr_db(one.values()[..., 0], truth) for one in (image, restored.image))
    assert after > before + 5


def test_a_drawing_that_the_box_filter_reduced_is_left_as_it_is():
    assert restore(_reduced(Image.Resampling.BOX)) is None


def test_estimates_that_are_given_are_not_overruled():
    restored = restore(_reduced(Image.Resampling.LANCZOS), {"blur_px": 0.3})
    assert restored is not None
    assert restored.degradation.kernel is None
