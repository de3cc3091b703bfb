"""Images of noise, of any mode and depth."""

import numpy as np

from neuralfield.images import ImageData
from neuralfield.images.image import CHANNELS

FORMATS = [("bilevel", 1), *((m, d) for m in ("grey", "rgb", "rgba") for d in (8, 16))]
"""All modes and bit depths."""


def noise(width: int, height: int, mode: str, bit_depth: int, seed: int = 7) -> ImageData:
    dtype = np.uint16 if bit_depth == 16 else np.uint8
    shape = (height, width, CHANNELS[mode])
    levels = np.random.default_rng(seed).integers(0, 2**bit_depth, shape, dtype)
    return ImageData(levels, mode, bit_depth)
