"""Rounding of values to the levels of a file: whole numbers from 0 to 2**bits - 1."""

from functools import cache
from typing import Any

import numpy as np
from PIL import Image

from neuralfield.system.device import Array, namespace_of


def to_levels(values: Array, bit_depth: int) -> Array:
    """Clip values to [0, 1] and round them to levels, as uint8 or uint16."""
    xp, white = namespace_of(values), 2**bit_depth - 1
    dtype = np.uint8 if bit_depth == 8 else np.uint16
    if xp is np:
        return np.rint(np.clip(values, 0, 1).astype(np.float32) * white).astype(dtype)
    levels = xp.empty(values.shape, dtype)
    _rounding()(values, np.float32(white), levels)
    return levels


def as_picture(values: np.ndarray) -> Image.Image:
    """Convert values of shape (h, w) or (h, w, channels) to an image of 8 bits per channel."""
    levels = to_levels(values, 8)
    return Image.fromarray(levels[..., 0] if levels.shape[2:] == (1,) else levels)


@cache
def _rounding() -> Any:
    """Return a GPU kernel that clips and rounds all values in one pass over memory."""
    import cupy

    return cupy.ElementwiseKernel(
        "T value, float32 white",
        "U level",
        "level = U(rintf(fminf(fmaxf(float(value), 0.0f), 1.0f) * white))",
        "neuralfield_to_levels",
    )
