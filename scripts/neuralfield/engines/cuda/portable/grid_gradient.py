"""The gradient of a hash grid's table, from gradients of points' features, on a GPU.

If each step sees all pixels of an image, gradients are summed along its lines and then down the
lines; see `grid_image.cu`. If it sees a pixel of each block, each row of the table gathers the
gradients of the points in the blocks beside its corners; see `block_gradient`. The contributions of
any other points are added up as whole numbers; see `grid_points.cu`. All three give the same bytes
each time.
"""

import math
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from neuralfield.engines.cuda.buffers import PartialGradient
from neuralfield.engines.cuda.dependent_launch import DependentLaunch
from neuralfield.engines.cuda.launch import THREADS, Launch
from neuralfield.engines.cuda.portable import grids
from neuralfield.engines.cuda.portable.block_gradient import BlockGradient, is_faster_by_blocks
from neuralfield.engines.cuda.portable.grid_features import FeatureLayout, grid_constants
from neuralfield.engines.cuda.source import compile_module
from neuralfield.engines.kernel_plan import MIXED_GRADIENT_SCALE, BatchPlan, NetworkPlan
from neuralfield.images.coordinates import axis_centres, extent
from neuralfield.system.device import Array, Device

_MOST_IMAGE_ROWS = 1 << 24
"""Maximum number of rows whose gradients and sums are in memory at the same time. The result
depends on it."""

_LARGEST_DERIVATIVE = 64.0
"""Maximum gradient with respect to a feature, of the loss summed over the batch and not yet divided
by its size; larger gradients are clipped. About fp16's largest number over the gradient scale."""

_WHOLE_BITS = 62
"""Number of bits for a sum's size in 64 bits: one bit is the sign, and one is left free."""


class TableGradient(Protocol):
    """Computes the gradient of a table from the gradients of features that a pass writes, chunk by
    chunk."""

    keeps_all: bool
    """Whether the gradients of all chunks are kept until the last chunk. Otherwise those of each
    chunk overwrite those of the chunk before."""

    array: Array
    """The gradient of the table, scaled as the gradients of features are; float32, shape (table's
    rows * features,) and up to three numbers more."""

    arrays: list[Array]
    """Everything that has been allocated for each training."""

    def launches(
        self, gradients: Array, inputs: Array, rows: int, *, is_last: bool
    ) -> Sequence[Callable[[], None]]:
        """List the launches to make after a chunk of `rows` rows.

        `gradients`, and `inputs`, shape (n, 2), begin with the chunk's first row or, with
        `keeps_all`, with the batch's first row; rows beyond the inputs have no gradients.
        """
        ...


def make_table_gradient(
    device: Device, network: NetworkPlan, batch: BatchPlan, layout: FeatureLayout
) -> TableGradient:
    """Make the table gradient that suits the batch; `layout` is that of the gradients."""
    if batch.image and batch.rows <= _MOST_IMAGE_ROWS:
        return _ImageGradient(device, network, batch.image, layout)
    if batch.rows <= _MOST_IMAGE_ROWS and is_faster_by_blocks(network, batch):
        return BlockGradient(device, network, batch, layout)
    return _PointGradient(device, network, batch, layout)


def table_partial(network: NetworkPlan, gradient: Array, scale: float) -> PartialGradient:
    """Describe the gradient for the update: a single part."""
    return PartialGradient(gradient, 1, gradient.size, network.table_shape[1], 0, scale)


class _ImageGradient:
    keeps_all = True

    def __init__(
        self, device: Device, network: NetworkPlan, image: tuple[int, int], layout: FeatureLayout
    ) -> None:
        self._device = device
        centres = [
            axis_centres(np, pixels, half_side).astype(np.float32)
            for pixels, half_side in zip(image, extent(*image), strict=True)
        ]
        across, down = (
            [grids.axis_corners(axis, level.resolution) for level in network.levels]
            for axis in centres
        )
        # numbers of sums along lines, and of rows of the table, of each level
        sums = [image[1] * len(level.corners) for level in across]
        works = sums, [level.rows for level in network.levels]
        # for each kernel, the first block of each level, and last the number of all blocks
        blocks = [np.cumsum([0, *(-(-work // THREADS) for work in level)]) for level in works]
        self._blocks = [int(firsts[-1]) for firsts in blocks]
        constants = grid_constants(network, layout) | {
            "WIDTH": image[0],
            "HEIGHT": image[1],
            "IMAGE_LEVELS": _image_levels(across, down, sums, blocks),
        }
        module = compile_module("portable/grid_image.cu", constants)
        self._kernels = [module.get_function(n) for n in ("grid_line_sums", "grid_row_sums")]
        asarray = device.xp.asarray
        self._across, self._down = (
            (asarray(_joined(axis, "spans")), asarray(_joined(axis, "parts")))
            for axis in (across, down)
        )
        starts, corners = _corners_of_all_rows(network, across, down)
        self._corners = asarray(starts), asarray(corners)
        self._sums = device.xp.zeros(sum(sums) * network.table_shape[1], np.float32)
        self.array = _zeros_for_gradient(device, network)
        self.arrays = [*self._across, *self._down, *self._corners, self._sums, self.array]

    def launches(
        self, gradients: Array, inputs: Array, rows: int, *, is_last: bool
    ) -> Sequence[Callable[[], None]]:
        """List all launches after the last chunk."""
        if not is_last:
            return []
        line_sums, row_sums = self._kernels
        line_blocks, row_blocks = self._blocks
        row_arguments = self._sums, *self._down, *self._corners, self.array
        return [
            # not dependent: a fused pass that is still running leaves hardly any L1 cache
            Launch(line_sums, (line_blocks,), (gradients, *self._across, self._sums)),
            DependentLaunch(self._device, row_sums, row_blocks, THREADS, row_arguments),
        ]


def _image_levels(
    across: list[grids.AxisCorners],
    down: list[grids.AxisCorners],
    sums: list[int],
    blocks: list[np.ndarray],
) -> list[tuple[int, ...]]:
    """Make the structs ImageLevel of grid_image.cu."""
    columns, lines = ([len(level.corners) for level in axis] for axis in (across, down))
    firsts = [np.cumsum([0, *counts])[:-1] for counts in (columns, lines, sums)]
    first_blocks = [kernel_blocks[:-1] for kernel_blocks in blocks]
    structs = zip(columns, *firsts, *first_blocks, strict=True)
    return [tuple(map(int, struct)) for struct in structs]


def _corners_of_all_rows(
    network: NetworkPlan, across: list[grids.AxisCorners], down: list[grids.AxisCorners]
) -> tuple[np.ndarray, np.ndarray]:
    """Return where each row's corners begin, int32, shape (rows + 1,), and all rows' corners one
    after another; see `grids.corners_of_rows`."""
    levels = [
        grids.corners_of_rows(level, columns.corners, lines.corners)
        for level, columns, lines in zip(network.levels, across, down, strict=True)
    ]
    counts, corners = (np.concatenate(parts) for parts in zip(*levels, strict=True))
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32), corners


def _joined(axis: list[grids.AxisCorners], name: str) -> np.ndarray:
    return np.concatenate([getattr(level, name) for level in axis])


class _PointGradient:
    keeps_all = False

    def __init__(
        self, device: Device, network: NetworkPlan, batch: BatchPlan, layout: FeatureLayout
    ) -> None:
        scale = MIXED_GRADIENT_SCALE if layout.is_mixed else 1.0
        largest = _LARGEST_DERIVATIVE * scale
        bits = _WHOLE_BITS - math.ceil(math.log2(batch.rows * largest))
        constants = grid_constants(network, layout) | {
            "UNITS": f"{1 << bits}ll",
            "LARGEST": largest,
        }
        module = compile_module("portable/grid_points.cu", constants)
        self._add, self._take = map(module.get_function, ("grid_add_points", "grid_take_sums"))
        self._levels, self._count = len(network.levels), math.prod(network.table_shape)
        self._sums = device.xp.zeros(self._count, np.int64)
        self.array = _zeros_for_gradient(device, network)
        self.arrays = [self._sums, self.array]

    def launches(
        self, gradients: Array, inputs: Array, rows: int, *, is_last: bool
    ) -> Sequence[Callable[[], None]]:
        """List the launch that adds the chunk's contributions and, after the last chunk, the one
        that converts their sums."""
        valid_rows = np.int32(min(rows, len(inputs)))
        grid = (-(-rows // THREADS), self._levels)
        launches = [Launch(self._add, grid, (inputs, valid_rows, gradients, self._sums))]
        if is_last:
            arguments = (self._sums, self.array, np.int32(self._count))
            launches.append(Launch(self._take, (-(-self._count // THREADS),), arguments))
        return launches


def _zeros_for_gradient(device: Device, network: NetworkPlan) -> Array:
    """Allocate a gradient that can be read four numbers at a time."""
    return device.xp.zeros(-(-math.prod(network.table_shape) // 4) * 4, np.float32)
