"""JPEG files: their quantisation, and their luma before values beyond black and white were clipped.

The error of each coefficient of that luma is at most half a step of the quantisation. Clipping
spreads errors over all coefficients of a block, also over those with small steps.
"""

import io
import math
import os
import struct
import warnings
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from neuralfield.images.image import ImageData, convert_values

BLOCK_PX = 8

MOST_PIXELS = 1 << 20
"""Largest size of drawings that are restored, which takes long."""

_MEAN_STEP = 57.625 / 255
"""Mean step for luma at quality 50, of the tables in annex K of ITU-T T.81."""

_MOST_DIFFERENCE, _MOST_OF_DEVIATION = 4 / 255, 0.3
"""Largest mean difference of the luma from that of the image, whose colours were clipped, and as a
share of the image's mean deviation: a turned image with little ink is not far from the file's."""

_PLACES = np.arange(BLOCK_PX)
_DCT = np.cos(np.pi / BLOCK_PX * np.outer(_PLACES, _PLACES + 0.5)) / 2
_DCT[0] /= np.sqrt(2)
_DCT = _DCT.astype(np.float32)
"""Orthonormal matrix of the discrete cosine transform."""

_ZIGZAG = sorted(range(64), key=lambda i: (sum(at := divmod(i, 8)), at[1 - sum(at) % 2]))
"""The order in which files have the steps of a table."""


class Jpeg(NamedTuple):
    """How an image that was read from a file had been compressed."""

    steps: np.ndarray  # of luma, as shares of white; float32, shape (8, 8)
    luma: np.ndarray | None = None  # not clipped; float32, shape (height, width)
    reduction: float = 1.0  # factor by which the image was reduced afterwards

    @property
    def mean_step(self) -> float:
        """The mean step, divided by the reduction, as noise is."""
        return float(self.steps.mean()) / max(1.0, self.reduction)

    @property
    def quality(self) -> int:
        """The quality, 1 to 100, for which libjpeg takes tables with the same mean step."""
        share = float(self.steps.mean()) / _MEAN_STEP
        return max(1, round(100 - 50 * share if share <= 1 else 50 / share))


def read_jpeg(path: str | os.PathLike, image: ImageData, reduction: float = 1.0) -> Jpeg | None:
    """Read the quantisation of a file; return None for other files, and damaged ones.

    `image` is what was read from the file, and perhaps turned, cropped, or reduced by a factor. The
    luma is read if its pixels are still those of the file.
    """
    failures = (OSError, ValueError, SyntaxError, Image.DecompressionBombError)
    with suppress(*failures), warnings.catch_warnings(action="ignore"):
        with Image.open(path, formats=["JPEG"]) as file:
            tables, size_px = getattr(file, "quantization", {}), file.size
            has_luma = file.mode in ("L", "RGB")
        if 0 not in tables:
            return None
        table = np.array(tables[0])
        found = Jpeg(table.reshape(BLOCK_PX, -1).astype(np.float32) / 255, reduction=reduction)
        is_own = has_luma and size_px == (image.width, image.height)
        if is_own and math.prod(size_px) <= MOST_PIXELS and table.max() < 256:  # as bytes
            own = convert_values(image.values(), 1)[..., 0]
            luma = _luma(Path(path).read_bytes(), table, own.shape)
            most = min(_MOST_DIFFERENCE, _MOST_OF_DEVIATION * np.mean(np.abs(own - own.mean())))
            if np.mean(np.abs(np.clip(luma, 0, 1) - own)) <= most:
                return found._replace(luma=luma)
        return found
    return None


def coefficients(values: np.ndarray) -> np.ndarray:
    """Transform blocks of an image; its sides and those of blocks are multiples of 8 pixels."""
    return _transformed(values, _DCT)


def from_coefficients(values: np.ndarray) -> np.ndarray:
    """Invert `coefficients`, which is also its adjoint."""
    return _transformed(values, _DCT.T)


def per_block(shape: tuple[int, ...], values: np.ndarray) -> np.ndarray:
    """Repeat values of shape (8, 8) for all blocks of an image."""
    return np.tile(values, (shape[0] // BLOCK_PX, shape[1] // BLOCK_PX))


def _luma(content: bytes, table: np.ndarray, sides: tuple[int, int]) -> np.ndarray:
    """Decode luma without clipping, or with it if many steps are too small to be halved.

    The file is decoded with half the steps, so that no value is beyond black and white, and to the
    ends of its last blocks. Rounding gives the stored coefficients, which are whole numbers.
    """
    halved, whole = (table + 1) // 2, [side + -side % BLOCK_PX for side in sides]
    tables = [bytes(steps[_ZIGZAG].tolist()) for steps in (table, halved)]
    sizes = [struct.pack(">BHH", 8, *both) for both in (sides, whole)]
    decoded = _decoded(content.replace(tables[0], tables[1]).replace(sizes[0], sizes[1]))
    if decoded.min() == 0 or decoded.max() == 255:
        return _decoded(content) / np.float32(255)
    steps, read = (per_block(decoded.shape, own.reshape(BLOCK_PX, -1)) for own in (table, halved))
    stored = np.rint(coefficients(decoded - 128) / read) * steps
    luma = from_coefficients(stored.astype(np.float32)) + 128
    return luma[: sides[0], : sides[1]] / np.float32(255)


def _decoded(content: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(content), formats=["JPEG"]) as file:
        file.draft("L", file.size)
        return np.asarray(file, np.float32)


def _transformed(values: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    height, width = values.shape
    rows = np.matmul(matrix, values.reshape(-1, BLOCK_PX, width))
    return np.matmul(rows.reshape(height, -1, BLOCK_PX), matrix.T).reshape(height, width)
