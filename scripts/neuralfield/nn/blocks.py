"""Batches of pixels that are spread evenly over an image.

The image is divided into blocks, one for each pixel of a batch, and each step samples one pixel of
every block: stratified sampling (Cochran, "Sampling Techniques", third edition, 1977, chapter 5).
The gradient of such a batch varies less from step to step than that of independent random pixels,
because every batch contains pixels from each part of the image. Within a block, pixels are sampled
without replacement: each pixel is used once before any is used again. The stride is the golden
ratio, so that successive pixels are far apart (Kronecker's sequence, modulo the number of pixels).
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import gcd, sqrt
from types import ModuleType

import numpy as np

from neuralfield.system.device import Array
from neuralfield.system.random_streams import STREAM_ORDER, philox

_GOLDEN_RATIO = (1 + sqrt(5)) / 2


@dataclass(frozen=True)
class Blocks:
    """The division of an image into blocks of nearly equal size, one for each slot of a batch.

    It uses integer arithmetic, so that kernels compute exactly the same blocks. Slot s is in row
    ``r = s * rows // count`` of the blocks, whose first slot is ``ceil(r * count / rows)``. In a
    row of c slots, the block of slot j begins at column ``j * width // c`` and at line ``r * height
    // rows``; it ends where those of the next slot and of the next row begin.
    """

    xp: ModuleType  # ``numpy`` or ``cupy``
    width: int  # of the image, which has fewer than 2 ** 31 pixels
    height: int
    count: int  # number of blocks, at most that of the pixels

    @property
    def rows(self) -> int:
        """The number of rows of blocks, for which blocks are nearly square."""
        fewest, most = -(-self.count // self.width), min(self.height, self.count)
        return max(fewest, min(round(sqrt(self.count * self.height / self.width)), most))

    @property
    def first_slots(self) -> np.ndarray:
        """The first slot of each row, followed by `count`; int64, shape (rows + 1,), on the CPU."""
        return -(-np.arange(self.rows + 1) * self.count // self.rows)

    @property
    def sizes(self) -> list[int]:
        """The numbers of pixels that blocks can have; at most eight different ones."""
        return sorted(
            {
                width * height
                for height in _parts(self.height, self.rows)
                for slots in _parts(self.count, self.rows)
                for width in _parts(self.width, slots)
            }
        )

    @property
    def strides(self) -> list[int]:
        """The stride between the pixels of successive steps, for a block of each of `sizes`."""
        return [_stride(size) for size in self.sizes]

    def sides(self) -> tuple[Array, Array, Array, Array]:
        """Return left column, top line, width and height of each block; int64, shape (count,)."""
        rows = self.rows
        slot = self.xp.arange(self.count)
        row, firsts = slot * rows // self.count, self.xp.asarray(self.first_slots)
        first, following = firsts[row], firsts[row + 1]
        place, slots = slot - first, following - first
        left, right = ((place + i) * self.width // slots for i in (0, 1))
        top, bottom = ((row + i) * self.height // rows for i in (0, 1))
        return left, top, right - left, bottom - top

    def pixels(self, step: int, seed: int) -> Array:
        """Return one pixel of each block for a step, counted from 0; int64, shape (count,).

        In a block of n pixels, which are numbered line by line, step t uses pixel ``(start + t % n
        * stride) % n``. The start is random for each block, and is sampled again every n steps.
        """
        corner, width, size, kind = self._lookup
        cycles = tuple(step // size for size in self.sizes)
        moves = [
            step % size * stride % size
            for size, stride in zip(self.sizes, self.strides, strict=True)
        ]
        number = _starts(self, cycles, seed) + self.xp.asarray(moves)[kind]
        number -= self.xp.where(number < size, 0, size)
        line = number // width
        return corner + line * (self.width - width) + number

    @cached_property
    def _lookup(self) -> tuple[Array, Array, Array, Array]:
        """The first pixel, the width and the size of each block (int32), and the index of the size
        in `sizes` (int8)."""
        left, top, width, height = self.sides()
        top *= self.width
        top += left
        height *= width
        kind = self.xp.searchsorted(self.xp.asarray(self.sizes), height)
        return *(array.astype("int32") for array in (top, width, height)), kind.astype("int8")


@lru_cache(maxsize=4)
def _starts(blocks: Blocks, cycles: tuple[int, ...], seed: int) -> Array:
    """Sample the starting pixel of each block; `cycles` are the completed cycles for each size."""
    xp, (*_, size, kind) = blocks.xp, blocks._lookup
    cycle = xp.asarray(cycles)[kind]
    word = philox(xp, (xp.arange(blocks.count), 0, cycle, STREAM_ORDER), seed)[0]
    return (word.astype("int64") * size >> 32).astype("int32")


def _parts(whole: int, parts: int) -> set[int]:
    """Return the sizes of nearly equal parts of a whole: one number, or two that differ by one."""
    return {whole // parts, -(-whole // parts)}


def _stride(size: int) -> int:
    """Return the smallest number of at least size / golden ratio that is coprime to `size`."""
    stride = max(1, int(size / _GOLDEN_RATIO))
    while gcd(stride, size) > 1:
        stride += 1
    return stride
