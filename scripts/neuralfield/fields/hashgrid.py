"""Multiresolution hash encoding before a small network (Mueller et al., "Instant neural graphics
primitives with a multiresolution hash encoding", ACM Transactions on Graphics, 2022)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from neuralfield.fields.coordinate_network import CoordinateNetwork, Output
from neuralfield.images.shape import PictureShape
from neuralfield.nn import ops
from neuralfield.nn.layers import Activation, he_weights, make_linear
from neuralfield.nn.tensor import Tensor
from neuralfield.system.device import Array, namespace_of
from neuralfield.system.setting_checks import require_positive, require_whole

HASH_PRIME = 2654435761
"""Of the spatial hash; the other axis has the factor 1."""

_INITIAL_BOUND = 1e-4
_MOST_LEVELS, _MOST_FEATURES, _LARGEST_LOG2_TABLE = 32, 8, 24
_LARGEST_RESOLUTION = 100_000


@dataclass(frozen=True)
class Level:
    """One of the grids.

    Attributes
    ----------
    resolution : int
        Cells along the longer side of the picture.
    start : int
        Its first row in the table.
    rows : int
        How many it has there.
    """

    resolution: int
    start: int
    rows: int

    @property
    def is_hashed(self) -> bool:
        """Whether corners share rows, because there are more of them."""
        return self.rows < (self.resolution + 1) ** 2

    def row_of(self, column: Array, line: Array) -> Array:
        """Row in the table of the grid's corners; arrays of int64."""
        if self.is_hashed:
            return self.start + ((column ^ (line * HASH_PRIME)) & (self.rows - 1))
        return self.start + line * (self.resolution + 1) + column


@dataclass
class HashEncoding:
    """Features of the corners around a point, interpolated bilinearly, for each of some grids.

    Attributes
    ----------
    table : Tensor, shape (rows, features)
        The features of all corners of all grids.
    levels : sequence of Level
    """

    table: Tensor
    levels: tuple[Level, ...]

    @property
    def size(self) -> int:
        """Values out."""
        return len(self.levels) * self.table.shape[1]

    @property
    def working_values(self) -> int:
        """Rows (twice as wide as numbers), weights, and features with their slopes."""
        return 4 * len(self.levels) * (3 + 2 * self.table.shape[1])

    @property
    def parameters(self) -> Mapping[str, Tensor]:
        """The table."""
        return {"table": self.table}

    @property
    def buffers(self) -> dict[str, Array]:
        """None."""
        return {}

    def __call__(self, coordinates: Array) -> Tensor:
        rows, weights = self.corners(coordinates)
        return ops.weighted_rows(self.table, rows, weights)

    def corners(self, coordinates: Array) -> tuple[Array, Array]:
        """What each point is interpolated from.

        Parameters
        ----------
        coordinates : array, shape (n, 2)

        Returns
        -------
        rows : array of int64, shape (n, levels, 4)
            Of the table.
        weights : array, shape (n, levels, 4)
            Add up to 1 over the four.
        """
        xp, number = namespace_of(coordinates), coordinates.dtype.type
        unit = (coordinates + 1) * number(0.5)
        rows, weights = [], []
        for level in self.levels:
            position = unit * number(level.resolution)
            # a point on the far edge belongs to the last cell
            cell = xp.clip(xp.floor(position), 0, level.resolution - 1)
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
class Hashgrid:
    """Trained features on grids of several resolutions, then a small relu network.

    Grid l has N_l = floor(N_min b ** l) cells along the longer side, with b such that the last has
    N_max. Corner (i, j) has its own row of features where the grid has at most T corners, and row
    (i xor 2654435761 j) mod T otherwise. Features start uniform in [-1e-4, 1e-4].

    Attributes
    ----------
    levels : int
        Grids, at most 32.
    features : int
        Numbers at each corner, at most 8.
    log2_table_size : int
        T = 2 ** this is the most rows that a grid has, from 4 to 24. Smaller: fewer numbers, and
        specks where corners share a row.
    base_resolution : int
        N_min, cells of the coarsest grid.
    finest_resolution : int
        N_max, cells of the finest; 0: the pixels of the picture's longer side. Above that nothing
        but the training points says what is between the pixels.
    hidden_layers, width : int
        Of the network.
    output, steepness
        See `neuralfield.fields.coordinate_network.Output`.
    """

    levels: int = 8
    features: int = 2
    log2_table_size: int = 12
    base_resolution: int = 16
    finest_resolution: int = 0
    hidden_layers: int = 2
    width: int = 64
    output: str = "linear"
    steepness: float = 4.0

    def __post_init__(self) -> None:
        require_positive(self, "steepness")
        require_whole(self, "width", "hidden_layers", at_least=1)
        require_whole(self, "levels", at_least=1, at_most=_MOST_LEVELS)
        require_whole(self, "features", at_least=1, at_most=_MOST_FEATURES)
        require_whole(self, "log2_table_size", at_least=4, at_most=_LARGEST_LOG2_TABLE)
        require_whole(self, "base_resolution", at_least=1, at_most=_LARGEST_RESOLUTION)
        require_whole(self, "finest_resolution", at_least=0, at_most=_LARGEST_RESOLUTION)

    def grids(self, shape: PictureShape) -> tuple[Level, ...]:
        """The grids for a picture."""
        finest = self.finest_resolution or max(shape.width, shape.height)
        # of one level there is the coarsest
        growth = max(1.0, finest / self.base_resolution) ** (1 / max(1, self.levels - 1))
        found, start = [], 0
        for index in range(self.levels):
            # the last power may fall a rounding short of the whole number it should be
            resolution = math.floor(self.base_resolution * growth**index + 1e-6)
            rows = min((resolution + 1) ** 2, 1 << self.log2_table_size)
            found.append(Level(resolution, start, rows))
            start += rows
        return tuple(found)

    @property
    def suggested_learning_rate(self) -> float:
        """Of Adam and Muon."""
        return 1e-2

    def weight_shapes(self, shape: PictureShape) -> list[tuple[int, int]]:
        """Shape of the table, and of each layer's matrix."""
        last = self.grids(shape)[-1]
        inputs = self.levels * self.features
        layers = pairwise((inputs, *[self.width] * self.hidden_layers, shape.channels))
        return [(last.start + last.rows, self.features), *layers]

    def build(self, shape: PictureShape, generator: np.random.Generator) -> CoordinateNetwork:
        """A network with fresh weights."""
        table_shape, *layer_shapes = self.weight_shapes(shape)
        table = generator.uniform(-_INITIAL_BOUND, _INITIAL_BOUND, size=table_shape)
        layers = [
            make_linear(fan_in, fan_out, he_weights, generator) for fan_in, fan_out in layer_shapes
        ]
        return CoordinateNetwork(
            HashEncoding(Tensor(table, differentiable=True), self.grids(shape)),
            layers,
            [Activation("relu")] * self.hidden_layers,
            Output(self.output, self.steepness),
        )
