"""The gradient of a hash grid's table for batches with points in each block of an image.

See `grid_blocks.cu`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from neuralfield.engines.cuda.launch import THREADS, Launch
from neuralfield.engines.cuda.portable.grid_features import FeatureLayout, grid_constants
from neuralfield.engines.cuda.portable.grids import corners_of_rows
from neuralfield.engines.cuda.source import compile_kernel
from neuralfield.engines.kernel_plan import TILE_ROWS, BatchPlan, NetworkPlan
from neuralfield.fields.hashgrid import Level
from neuralfield.images.coordinates import extent
from neuralfield.nn.blocks import Blocks
from neuralfield.system.device import Array, Device

_ROUNDING_CELLS = 1e-3
"""Maximum distance, in cells, of a point outside its block, which is due to rounding."""

_SLOTS_OF_LANE, _MOST_LANES = 12, 5
"""Approximate number of slots that a lane visits, and base-2 logarithm of the maximum number of
lanes for a row."""

_MOST_CORNERS = 1 << 16
"""Maximum number of corners along an axis, because kernels count them in 16 bits."""

_VISITS_OF_SHARE = 4
"""Maximum number of visits of points by corners, per addition to memory that they replace; more
visits would take longer than the additions."""


@dataclass(frozen=True)
class _Corners:
    """The corners of a level along an axis, from `first` on, and the blocks beside each corner.

    A row of `spans` has, for each number of blocks that there may be along the axis, the first
    block beside a corner and the one after the last.
    """

    first: int
    spans: np.ndarray

    @property
    def corners(self) -> np.ndarray:
        """The numbers of the corners along the axis."""
        return self.first + np.arange(len(self.spans))

    @property
    def counts(self) -> np.ndarray:
        """The maximum number of blocks beside each corner."""
        return (self.spans[:, 1::2] - self.spans[:, ::2]).max(axis=1).clip(0)


@dataclass(frozen=True)
class _Tables:
    """Tables that the kernel reads in addition to a batch, equal for all networks of one shape."""

    structs: list[tuple[int, ...]]
    blocks: int  # of threads
    arrays: tuple[Array, ...]


class BlockGradient:
    """See `grid_gradient.TableGradient`."""

    keeps_all = True

    def __init__(
        self, device: Device, network: NetworkPlan, batch: BatchPlan, layout: FeatureLayout
    ) -> None:
        blocks = batch.blocks
        assert blocks is not None
        self._tables = _tables(device, network.levels, blocks, batch.footprint)
        constants = grid_constants(network, layout) | {
            "POINTS": batch.points,
            "TILE_PIXELS": batch.tile_pixels,
            "TILE_ROWS": TILE_ROWS,
            "FEWEST": blocks.count // blocks.rows,
            "BLOCK_LEVELS": self._tables.structs,
        }
        self._kernel = compile_kernel("portable/grid_blocks.cu", "grid_block_sums", constants)
        rows, features = network.table_shape
        self.array = device.xp.zeros(-(-rows * features // 4) * 4, np.float32)
        self.arrays = [self.array]

    def launches(
        self, gradients: Array, inputs: Array, rows: int, *, is_last: bool
    ) -> list[Launch]:
        """List the launch after the last chunk."""
        if not is_last:
            return []
        arguments = (inputs, gradients, *self._tables.arrays, self.array)
        return [Launch(self._kernel, (self._tables.blocks,), arguments)]


def is_faster_by_blocks(network: NetworkPlan, batch: BatchPlan) -> bool:
    """Estimate whether `BlockGradient` is faster than adding points' contributions to memory."""
    finest = max(level.resolution for level in network.levels)
    if batch.blocks is None or finest >= _MOST_CORNERS:
        return False
    axes = [_axes(level, batch.blocks, batch.footprint) for level in network.levels]
    visits = sum(int(x.counts.sum()) * int(y.counts.sum()) for x, y in axes)
    shares = 4 * len(network.levels) * network.table_shape[1] * batch.pixels
    return visits <= _VISITS_OF_SHARE * shares


@lru_cache(maxsize=2)
def _tables(device: Device, levels: tuple[Level, ...], blocks: Blocks, footprint: bool) -> _Tables:
    axes = [_axes(level, blocks, footprint) for level in levels]
    found = [
        corners_of_rows(level, x.corners, y.corners)
        for level, (x, y) in zip(levels, axes, strict=True)
    ]
    structs, level_of_block = _block_levels(levels, axes, [counts for counts, _ in found])
    starts = np.cumsum([0, *np.concatenate([counts for counts, _ in found])])
    columns_and_lines = [
        np.stack(np.divmod(corners, len(x.spans))[::-1], axis=1)
        for (_, corners), (x, _) in zip(found, axes, strict=True)
    ]
    spans = [np.concatenate([pair[axis].spans for pair in axes]) for axis in (0, 1)]
    arrays = (
        *(device.asarray(table, np.int32) for table in (blocks.first_slots, *spans, starts)),
        device.asarray(np.concatenate(columns_and_lines), np.uint16),
        device.asarray(level_of_block, np.uint8),
    )
    return _Tables(structs, len(level_of_block), arrays)


def _axes(level: Level, blocks: Blocks, footprint: bool) -> tuple[_Corners, _Corners]:
    """Find a level's corners next to an image, and the blocks beside them, along x and y."""
    slots = blocks.count // blocks.rows
    sides, cells = (blocks.width, blocks.height), zip(*level.outermost_cells, strict=True)
    numbers = (slots, slots + 1), (blocks.rows,)
    x, y = (
        _axis(side, half_side, cells_of_axis, level.resolution, of_axis, footprint)
        for side, half_side, cells_of_axis, of_axis in zip(
            sides, extent(*sides), cells, numbers, strict=True
        )
    )
    return x, y


def _axis(
    side: int,
    half_side: float,
    outermost: tuple[int, int],
    resolution: int,
    numbers: tuple[int, ...],
    footprint: bool,
) -> _Corners:
    """Find the corners along an axis of `side` pixels and, for each of the `numbers` of blocks, the
    blocks beside each corner. With a `footprint`, points may lie anywhere in their pixels.
    """

    def cells(pixels: np.ndarray) -> np.ndarray:
        return ((2 * pixels / side - 1) * half_side + 1) / 2 * resolution

    inside = 0.0 if footprint else 0.5
    first, last = np.floor(cells(np.array([0, side]))).astype(int).clip(*outermost)
    corners, spans = np.arange(first, last + 2), []
    for count in numbers:
        edges = np.arange(count + 1) * side // count
        spans += [
            np.searchsorted(cells(edges[1:] - inside), corners - 1 - _ROUNDING_CELLS),
            np.searchsorted(cells(edges[:-1] + inside), corners + 1 + _ROUNDING_CELLS),
        ]
    return _Corners(int(first), np.stack(spans, axis=1))


def _block_levels(
    levels: Sequence[Level], axes: Sequence[tuple[_Corners, _Corners]], counts: Sequence[np.ndarray]
) -> tuple[list[tuple[int, ...]], list[int]]:
    """Make the structs BlockLevel, and list the level of each block of threads.

    `counts` has, for each level, the number of corners that share each row of the table.
    """
    structs, level_of_block = [], []
    places = [0, 0]  # the first of a level's spans along both axes
    for level, (x, y), of_rows in zip(levels, axes, counts, strict=True):
        wide, high, shared = (
            max(1.0, float(counts.mean())) for counts in (x.counts, y.counts, of_rows)
        )
        lanes = min(_log2(wide * high * shared / _SLOTS_OF_LANE), _MOST_LANES)
        of_corners = min(lanes, _log2(shared))
        lanes_across = min(lanes - of_corners, _log2(wide))
        structs.append(
            (x.first, y.first, *places, lanes, of_corners, lanes_across, len(level_of_block))
        )
        level_of_block += [len(structs) - 1] * -(-(level.rows << lanes) // THREADS)
        places = [place + len(axis.spans) for place, axis in zip(places, (x, y), strict=True)]
    return structs, level_of_block


def _log2(number: float) -> int:
    """Return the logarithm of the largest power of 2 that is at most a number, or 0."""
    return max(0, int(number).bit_length() - 1)
