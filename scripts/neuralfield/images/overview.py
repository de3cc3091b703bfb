"""A small picture of a large one that comes in bands."""

import math

import numpy as np


class Overview:
    """Means over square blocks, added up as the rows come.

    Parameters
    ----------
    width, height, channels : int
        Of the large picture.
    max_megapixels : float
        The blocks are the smallest with which the overview has no more than this many million
        pixels; of one pixel where the picture is that small.
    """

    def __init__(self, width: int, height: int, channels: int, max_megapixels: float) -> None:
        block = max(1, math.isqrt(int(width * height / (1e6 * max_megapixels))))
        while -(-width // block) * -(-height // block) > max(1, 1e6 * max_megapixels):
            block += 1
        self.block_px = block
        self._starts = np.arange(0, width, block)
        self._sums = np.zeros((-(-height // block), len(self._starts), channels), np.float32)
        self._width, self._height, self._rows = width, height, 0

    def add(self, values: np.ndarray) -> None:
        """Take the next rows.

        Parameters
        ----------
        values : ndarray of float32, shape (rows, width, channels)
        """
        sums = np.add.reduceat(values, self._starts, axis=1)
        # one after another, so that how rows are cut into bands makes no difference
        for row in sums:
            self._sums[self._rows // self.block_px] += row
            self._rows += 1

    def values(self) -> np.ndarray:
        """The means, once all rows are there; float32, shape (rows, columns, channels)."""
        wide = np.diff(np.append(self._starts, self._width))
        tops = np.arange(0, self._height, self.block_px)
        high = np.diff(np.append(tops, self._height))
        return self._sums / (high[:, None] * wide).astype(np.float32)[..., None]
