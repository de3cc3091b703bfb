"""Multiresolution hash encoding before a small network (Mueller et al., "Instant neural graphics
primitives with a multiresolution hash encoding", ACM Transactions on Graphics, 2022)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from neuralfield.fields.coordinate_network import CoordinateNetwork, Encoding
from neuralfield.fields.settings import FieldSettings, activation_choice, layer_count, layer_width
from neuralfield.images.coordinates import extent
from neuralfield.images.image import ImageShape
from neuralfield.nn import ops
from neuralfield.nn.arithmetic import Arithmetic, Value
from neuralfield.nn.layers import Activation, he_weights, make_layers
from neuralfield.nn.tensor import Tensor
from neuralfield.system.device import Array, namespace_of
from neuralfield.system.settings import setting

HASH_PRIME = 2654435761
"""Factor of the line index in the spatial hash; the factor of the column index is 1."""

_INITIAL_BOUND = 1e-4

_EDGE = 1e-2
"""Minimum margin of a cropped grid around the image in cells, for points rounded to float32."""


@dataclass(frozen=True)
class Level:
    """One of the grids of a hash encoding."""

    resolution: int  # cells along the longer side of the image
    start: int  # first row of the grid in the table
    rows: int  # number of rows of the grid in the table
    cells: tuple[range, range] | None = None
    """The cells along x and y of a cropped grid; None if the grid covers a square or is hashed."""

    @property
    def is_hashed(self) -> bool:
        """Whether corners share rows, because the grid has more corners than rows."""
        return self.cells is None and self.rows < (self.resolution + 1) ** 2

    @property
    def columns(self) -> int:
        """The number of corners in each line of the grid."""
        return len(self.cells[0] if self.cells else range(self.resolution)) + 1

    @property
    def skipped(self) -> int:
        """The index line * `columns` + column of the first corner of a cropped grid."""
        return self.cells[1].start * self.columns + self.cells[0].start if self.cells else 0

    @property
    def outermost_cells(self) -> tuple[list[int], list[int]]:
        """The first and the last cell along x and y."""
        axes = self.cells or (range(self.resolution), range(self.resolution))
        return [axis[0] for axis in axes], [axis[-1] for axis in axes]

    def row_of(self, column: Array, line: Array) -> Array:
        """Compute the rows of corners in the table; arguments and result are int64 arrays."""
        if self.is_hashed:
            return self.start + ((column ^ (line * HASH_PRIME)) & (self.rows - 1))
        return self.start - self.skipped + line * self.columns + column


@dataclass
class HashEncoding(Encoding):
    """Features of several grids, interpolated bilinearly from the four corners around a point."""

    table: Tensor  # shape (rows, features); the features of all corners of all grids
    levels: tuple[Level, ...]
    name = "hashgrid"

    @property
    def size(self) -> int:
        return len(self.levels) * self.table.shape[1]

    @property
    def working_values(self) -> int:
        return _corner_values(len(self.levels), self.table.shape[1])

    @property
    def parameters(self) -> Mapping[str, Tensor]:
        return {"table": self.table}

    def __call__(self, coordinates: Array) -> Tensor:
        rows, weights = self.corners(coordinates)
        return ops.weighted_rows(self.table, rows, weights)

    def formula(self, xy: Value, f: Arithmetic) -> Value:
        table, unit, features = f.parameter("encoding.table"), (xy + 1.0) * 0.5, []
        for level in self.levels:
            position = unit * float(level.resolution)
            cell = f.cell(position, *level.outermost_cells)
            near, part = f.whole(cell), position - cell
            x, y = f.columns(near, 0, 1), f.columns(near, 1, 2)
            u, v = f.columns(part, 0, 1), f.columns(part, 1, 2)
            total: Value = 0.0
            for j, along_y in enumerate((1.0 - v, v)):
                for i, along_x in enumerate((1.0 - u, u)):
                    corner = f.rows(table, level.row_of(x + i, y + j))
                    total = along_x * along_y * corner + total
            features.append(total)
        return f.concatenate(features)

    def corners(self, coordinates: Array) -> tuple[Array, Array]:
        """Compute the table rows and weights for the interpolation of each point.

        Rows are int64 of shape (n, levels, 4). Weights have the same shape; the four of a level add
        up to 1.
        """
        xp, number = namespace_of(coordinates), coordinates.dtype.type
        unit = (coordinates + 1) * number(0.5)
        rows, weights = [], []
        for level in self.levels:
            position = unit * number(level.resolution)
            # a point on the far edge belongs to the last cell
            bounds = (xp.asarray(cell, coordinates.dtype) for cell in level.outermost_cells)
            cell = xp.clip(xp.floor(position), *bounds)
            part = position - cell
            near = cell.astype(np.int64)
            (x, y), (u, v) = near.T, part.T
            rows.append([level.row_of(x + i, y + j) for j in (0, 1) for i in (0, 1)])
            weights.append([a * b for b in (1 - v, v) for a in (1 - u, u)])
        shape = (len(self.levels), 4, len(coordinates))
        return tuple(
            xp.ascontiguousarray(
                xp.stack([corner for level in parts for corner in level])
                .reshape(shape)
                .transpose(2, 0, 1)
            )
            for parts in (rows, weights)
        )


@dataclass(frozen=True)
class Hashgrid(FieldSettings):
    """Trainable features on grids of several resolutions, followed by a small network.

    Grid l has N_l = floor(N_min b ** l) cells along the longer side, where b is such that the last
    grid has N_max cells. If a grid has at most T = 2 ** log2_table_size corners, each corner has a
    row of features of its own; otherwise corner (i, j) has row (i xor 2654435761 j) mod T. Cropped
    grids have only the corners around the image, other grids those of a square. Initial features
    are uniform in [-1e-4, 1e-4].
    """

    title = "Grids of trained features before a small network (hash encoding, Müller et al. 2022)"
    usual_learning_rate = 1e-2

    levels: int = setting(8, "number of grids", minimum=1, maximum=32)
    features: int = setting(2, "number of features at each corner of a grid", minimum=1, maximum=8)
    log2_table_size: int = setting(
        12,
        "base-2 logarithm of the largest number of rows of features in a grid: 15 for a photograph"
        " of 768 x 512; lower gives fewer parameters, and specks because corners share rows",
        minimum=4,
        maximum=24,
    )
    base_resolution: int = setting(
        16,
        "number of cells of the coarsest grid along the longer side",
        unit="cells",
        minimum=1,
        maximum=100_000,
    )
    finest_resolution: int = setting(
        0,
        "number of cells of the finest grid along the longer side; 0: as many as pixels; half as"
        " many for better renders between the pixels",
        unit="cells",
        minimum=0,
        maximum=100_000,
    )
    hidden_layers: int = layer_count(2, "layers of the network after the grids", minimum=1)
    width: int = layer_width(64)
    activation: str = activation_choice("relu", omit_when_off=True)
    cropped: bool = setting(
        False,
        "whether corners outside the image are left out: 5 to 10 % fewer parameters for the same"
        " fit at 3 : 2",
        omit_when_off=True,
    )

    def grids(self, shape: ImageShape) -> tuple[Level, ...]:
        finest = self.finest_resolution or max(shape.width, shape.height)
        # a single level is the coarsest
        growth = max(1.0, finest / self.base_resolution) ** (1 / max(1, self.levels - 1))
        found, start = [], 0
        for index in range(self.levels):
            # rounding may make the last power slightly smaller than the whole number it should be
            resolution = math.floor(self.base_resolution * growth**index + 1e-6)
            cells = _cells_of(shape, resolution) if self.cropped else None
            corners = math.prod(len(axis) + 1 for axis in cells or 2 * (range(resolution),))
            rows = min(corners, 1 << self.log2_table_size)
            found.append(Level(resolution, start, rows, cells if rows == corners else None))
            start += rows
        return tuple(found)

    @property
    def sizes(self) -> list[int]:
        return [self.levels * self.features, *[self.width] * self.hidden_layers]

    @property
    def working_values(self) -> int:
        return super().working_values + _corner_values(self.levels, self.features)

    def encoding_shapes(self, shape: ImageShape) -> list[tuple[int, int]]:
        """Return the shape of the table."""
        last = self.grids(shape)[-1]
        return [(last.start + last.rows, self.features)]

    def build(self, shape: ImageShape, generator: np.random.Generator) -> CoordinateNetwork:
        table_shape, *layer_shapes = self.weight_shapes(shape)
        table = generator.uniform(-_INITIAL_BOUND, _INITIAL_BOUND, size=table_shape)
        layers = make_layers(layer_shapes, he_weights, generator)
        encoding = HashEncoding(Tensor(table, differentiable=True), self.grids(shape))
        return self.network(encoding, layers, [Activation(self.activation)] * self.hidden_layers)


def _corner_values(levels: int, features: int) -> int:
    """Count row indices (64 bits: two values), weights, and features with their gradients."""
    return 4 * levels * (3 + 2 * features)


def _cells_of(shape: ImageShape, resolution: int) -> tuple[range, range]:
    """Return the ranges of cells along x and y that contain the points of an image."""
    axes = []
    for half_side in extent(shape.width, shape.height):
        first, last = ((1 + side * half_side) / 2 * resolution for side in (-1, 1))
        end = min(math.floor(last + _EDGE) + 1, resolution)
        axes.append(range(max(math.floor(first - _EDGE), 0), end))
    return axes[0], axes[1]
