"""The gradient of a hash grid's table where a batch has points in each block of an image; see
`grid_blocks.cu`."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from neuralfield.engines.cuda.launch import THREADS, Launch
from neuralfield.engines.cuda.portable.grid_features import (
    FeatureLayout,
    grid_constants,
    struct_list,
)
from neuralfield.engines.cuda.portable.grids import corners_of_rows
from neuralfield.engines.cuda.source import compile_kernel
from neuralfield.engines.plan import TILE_ROWS, BatchPlan, NetworkPlan
from neuralfield.fields.hashgrid import Level
from neuralfield.images.coordinates import extent
from neuralfield.nn.blocks import Blocks
from neuralfield.system.device import Array, Device

_ROUNDING_CELLS = 1e-3
"""A point may lie so far beyond its block, by rounding."""

_SLOTS_OF_LANE, _MOST_LANES = 2, 32

_VISITS_OF_SHARE = 4
"""Visits of points by corners take less time than additions to memory if there are at most so many
for each of these."""


@dataclass(frozen=True)
class _Axis:
    """The corners of a level along an axis, from the first on, and the blocks beside each.

    A row of `spans` has the first block and the one behind the last; there are pairs of them for
    each number of blocks along the axis.
    """

    first: int
    spans: np.ndarray

    @property
    def corners(self) -> np.ndarray:
        """The places of the corners along the axis."""
        return self.first + np.arange(len(self.spans))

    @property
    def counts(self) -> np.ndarray:
        """Blocks beside each corner, at most."""
        return (self.spans[:, 1::2] - self.spans[:, ::2]).max(axis=1).clip(0)


class BlockGradient:
    """See `grid_gradient.TableGradient`."""

    keeps_all = True

    def __init__(
        self, device: Device, network: NetworkPlan, batch: BatchPlan, layout: FeatureLayout
    ) -> None:
        blocks, asarray = batch.blocks, device.xp.asarray
        assert blocks is not None
        axes = [_axes(level, blocks, batch) for level in network.levels]
        across, down = zip(*axes, strict=True)
        counts, corners = zip(
            *(
                corners_of_rows(level, x.corners, y.corners)
                for level, (x, y) in zip(network.levels, axes, strict=True)
            ),
            strict=True,
        )
        structs, self._blocks = _block_levels(network, across, down, counts)
        fewest = blocks.count // blocks.rows
        constants = grid_constants(network, layout) | {
            "POINTS": batch.points,
            "TILE_PIXELS": batch.tile_pixels,
            "TILE_ROWS": TILE_ROWS,
            "FEWEST": fewest,
            "BLOCK_LEVELS": struct_list(structs),
        }
        path = Path(__file__).with_name("grid_blocks.cu")
        self._kernel = compile_kernel(path, "grid_block_sums", constants)
        first_slots = -(-np.arange(blocks.rows + 1) * blocks.count // blocks.rows)
        starts = np.cumsum([0, *np.concatenate(counts)])
        self._tables = [
            asarray(np.concatenate(parts).astype(np.int32))
            for parts in (
                [first_slots],
                [axis.spans for axis in across],
                [axis.spans for axis in down],
                [starts],
                corners,
            )
        ]
        rows, features = network.table_shape
        self.array = device.xp.zeros(-(-rows * features // 4) * 4, np.float32)
        self.memory_bytes = sum(array.nbytes for array in (*self._tables, self.array))

    def launches(
        self, gradients: Array, inputs: Array, rows: int, *, is_last: bool
    ) -> list[Launch]:
        """List the launch after the last chunk."""
        if not is_last:
            return []
        arguments = (inputs, gradients, *self._tables, self.array)
        return [Launch(self._kernel, (self._blocks,), arguments)]


def is_faster_by_blocks(network: NetworkPlan, batch: BatchPlan) -> bool:
    """Estimate whether that takes less time than adding each point's shares to memory."""
    if batch.blocks is None:
        return False
    visits = sum(
        int(x.counts.sum()) * int(y.counts.sum())
        for x, y in (_axes(level, batch.blocks, batch) for level in network.levels)
    )
    shares = 4 * len(network.levels) * network.table_shape[1] * batch.pixels
    return visits <= _VISITS_OF_SHARE * shares


def _axes(level: Level, blocks: Blocks, batch: BatchPlan) -> tuple[_Axis, _Axis]:
    """Find a level's corners next to an image, and the blocks beside them, along x and y."""
    slots = blocks.count // blocks.rows
    sides, cells = (blocks.width, blocks.height), zip(*level.outermost_cells, strict=True)
    numbers = (slots, slots + 1), (blocks.rows,)
    x, y = (
        _axis(side, half_side, cells_of_axis, level.resolution, of_axis, batch.footprint)
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
) -> _Axis:
    """Find the corners along an axis of `side` pixels, and the blocks beside them where there are
    so many; with a `footprint` points may lie anywhere in their pixels.
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
    return _Axis(int(first), np.stack(spans, axis=1))


def _block_levels(
    network: NetworkPlan,
    across: tuple[_Axis, ...],
    down: tuple[_Axis, ...],
    counts: tuple[np.ndarray, ...],
) -> tuple[list[tuple[int, ...]], int]:
    """Make the structs BlockLevel, and count the blocks of threads."""
    structs, places, end = [], [0, 0], 0  # the first of a level's spans along both axes
    for level, x, y, of_rows in zip(network.levels, across, down, counts, strict=True):
        wide, high, shared = (
            max(1.0, float(counts.mean())) for counts in (x.counts, y.counts, of_rows)
        )
        lanes = min(_power_of_2(wide * high * shared / _SLOTS_OF_LANE), _MOST_LANES)
        of_corners = min(lanes, _power_of_2(shared))
        lanes_across = min(lanes // of_corners, _power_of_2(wide))
        end += -(-level.rows * lanes // THREADS)
        structs.append(
            (len(x.spans), x.first, y.first, *places, lanes, of_corners, lanes_across, end)
        )
        places = [place + len(axis.spans) for place, axis in zip(places, (x, y), strict=True)]
    return structs, end


def _power_of_2(most: float) -> int:
    """Return the largest power of 2 that is at most a number, which may be below 1."""
    return 1 << max(0, int(most).bit_length() - 1)
