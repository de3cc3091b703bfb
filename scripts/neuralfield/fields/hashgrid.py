"""Multiresolution hash encoding before a small network (Mueller et al., "Instant neural graphics
primitives with a multiresolution hash encoding", ACM Transactions on Graphics, 2022)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from neuralfield.fields.coordinate_network import CoordinateNetwork
from neuralfield.fields.settings import FieldSettings, activation_choice, layer_count, layer_width
from neuralfield.images.coordinates import extent
from neuralfield.images.image import ImageShape
from neuralfield.nn import ops
from neuralfield.nn.layers import Activation, he_weights, make_layers
from neuralfield.nn.tensor import Tensor
from neuralfield.system.device import Array, namespace_of
from neuralfield.system.settings import setting

HASH_PRIME = 2654435761
"""The factor of one axis in the spatial hash; the other axis has the factor 1."""

_INITIAL_BOUND = 1e-4

_EDGE = 1e-2
"""Cells that a cropped grid has beyond the image at least, for points rounded in float32."""


@dataclass(frozen=True)
class Level:
    """One of the grids."""

    resolution: int  # cells along the longer side of the image
    start: int  # its first row in the table
    rows: int  # how many it has there
    cells: tuple[range, range] | None = None
    """The cells along x and y whose corners have rows of their own; None: all of the square."""

    @property
    def is_hashed(self) -> bool:
        """Whether corners share rows, because there are more of them."""
        return self.cells is None and self.rows < (self.resolution + 1) ** 2

    @property
    def columns(self) -> int:
        """Corners in a line that have rows of their own."""
        return len(self.cells[0] if self.cells else range(self.resolution)) + 1

    @property
    def skipped(self) -> int:
        """Corners before the first that has a row of its own, if all lines had `columns`."""
        return self.cells[1].start * self.columns + self.cells[0].start if self.cells else 0

    @property
    def outermost_cells(self) -> tuple[list[int], list[int]]:
        """The first and the last cell along x and y."""
        axes = self.cells or (range(self.resolution), range(self.resolution))
        return [axis[0] for axis in axes], [axis[-1] for axis in axes]

    def row_of(self, column: Array, line: Array) -> Array:
        """Find the rows in the table of the grid's corners; arrays of int64."""
        if self.is_hashed:
            return self.start + ((column ^ (line * HASH_PRIME)) & (self.rows - 1))
        return self.start - self.skipped + line * self.columns + column


@dataclass
class HashEncoding:
    """Features of the corners around a point, interpolated bilinearly, for each of some grids."""

    table: Tensor  # shape (rows, features); the features of all corners of all grids
    levels: tuple[Level, ...]

    @property
    def size(self) -> int:
        return len(self.levels) * self.table.shape[1]

    @property
    def working_values(self) -> int:
        """Rows (twice as wide as numbers), weights, and features with their gradients."""
        return 4 * len(self.levels) * (3 + 2 * self.table.shape[1])

    @property
    def parameters(self) -> Mapping[str, Tensor]:
        return {"table": self.table}

    @property
    def buffers(self) -> dict[str, Array]:
        return {}

    def __call__(self, coordinates: Array) -> Tensor:
        rows, weights = self.corners(coordinates)
        return ops.weighted_rows(self.table, rows, weights)

    def corners(self, coordinates: Array) -> tuple[Array, Array]:
        """Find the rows of the table that each point is interpolated from, int64 of shape
        (n, levels, 4), and their weights, which add up to 1 over the four.
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
    """Trained features on grids of several resolutions, then a small network.

    Grid l has N_l = floor(N_min b ** l) cells along the longer side, with b such that the last has
    N_max. Corner (i, j) has its own row of features where the grid has at most T corners, and row
    (i xor 2654435761 j) mod T otherwise. Cropped grids have the corners around the image, others
    those of a square. Features start uniform in [-1e-4, 1e-4].
    """

    usual_learning_rate = 1e-2

    levels: int = setting(8, "grids", minimum=1, maximum=32)
    features: int = setting(2, "numbers at each corner", minimum=1, maximum=8)
    log2_table_size: int = setting(
        12,
        "a grid keeps at most 2 to the power of this corners; smaller gives fewer numbers, and"
        " specks where corners share a row",
        minimum=4,
        maximum=24,
    )
    base_resolution: int = setting(
        16,
        "N_min, cells of the coarsest grid along the longer side",
        unit="cells",
        minimum=1,
        maximum=100_000,
    )
    finest_resolution: int = setting(
        0,
        "N_max, cells of the finest; 0: the pixels of the longer side, above which nothing but the"
        " training points determines what is between the pixels",
        unit="cells",
        minimum=0,
        maximum=100_000,
    )
    hidden_layers: int = layer_count(2, "layers of the network after the grids", minimum=1)
    width: int = layer_width(64)
    activation: str = activation_choice("relu", omit_when_off=True)
    cropped: bool = setting(
        False,
        "whether grids lack corners outside the image, which no pixel needs: fewer numbers for the"
        " same fit where an image is not square",
        omit_when_off=True,
    )

    def grids(self, shape: ImageShape) -> tuple[Level, ...]:
        finest = self.finest_resolution or max(shape.width, shape.height)
        # a single level is the coarsest
        growth = max(1.0, finest / self.base_resolution) ** (1 / max(1, self.levels - 1))
        found, start = [], 0
        for index in range(self.levels):
            # the last power may fall a rounding short of the whole number it should be
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

    def weight_shapes(self, shape: ImageShape) -> list[tuple[int, int]]:
        """Shape of the table, and of each layer's matrix."""
        last = self.grids(shape)[-1]
        return [(last.start + last.rows, self.features), *super().weight_shapes(shape)]

    def build(self, shape: ImageShape, generator: np.random.Generator) -> CoordinateNetwork:
        table_shape, *layer_shapes = self.weight_shapes(shape)
        table = generator.uniform(-_INITIAL_BOUND, _INITIAL_BOUND, size=table_shape)
        layers = make_layers(layer_shapes, he_weights, generator)
        encoding = HashEncoding(Tensor(table, differentiable=True), self.grids(shape))
        return self.network(encoding, layers, [Activation(self.activation)] * self.hidden_layers)


def _cells_of(shape: ImageShape, resolution: int) -> tuple[range, range]:
    """List the cells along x and y that an image's points lie in."""
    axes = []
    for half_side in extent(shape.width, shape.height):
        first, last = ((1 + side * half_side) / 2 * resolution for side in (-1, 1))
        end = min(math.floor(last + _EDGE) + 1, resolution)
        axes.append(range(max(math.floor(first - _EDGE), 0), end))
    return axes[0], axes[1]
