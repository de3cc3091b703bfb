"""The layout of latents, their gradients and enlarged copies in flat arrays.

Latents and their gradients have a border of zeros around each grid: `BORDER` rows above it, and as
many columns at both sides. A table has a row of integers for each grid.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from neuralfield.coding import context
from neuralfield.coding.context import FEATURES

AROUND = np.array(context.AROUND)

BORDER = 4
BAND_ROWS = 16
"""Rows of the parts that a grid is divided into. Parts share no latent of the four next grids."""

PIECE = 64
"""Number of latents, or of pixels, that are evaluated together, in a core's first caches."""

ROWS, COLUMNS, STRIDE = 0, 1, 2
LATENT_START = 3
"""Place of a grid's first latent, and of its gradient; rows are `STRIDE` apart."""
PARAMETER_START = 4
"""Place of a grid's first parameter; rows follow each other without gaps."""
FEATURE_START = 4
"""`FEATURE_START` + j is the place of the gradient that grid k + j gets from grid k."""
TABLE_COLUMNS = FEATURE_START + FEATURES + 1


class Arrays(NamedTuple):
    """The arrays that kernels exchange; float32 but for the first two."""

    table: np.ndarray  # int64; latents and their gradients are where it says
    places: np.ndarray  # int64, where copies and their gradients are, see `copy_places`
    image: np.ndarray  # (channels, rows, columns)
    latents: np.ndarray
    derivatives: np.ndarray  # of latents with respect to their parameters
    copies: np.ndarray  # of grids, enlarged or not
    parameters: np.ndarray  # all; the next four are parts of them
    rate: np.ndarray  # the rows of all matrices of the rate model
    filters: np.ndarray  # flat, (taps,)
    hidden: np.ndarray
    output: np.ndarray
    gradient: np.ndarray  # for parameters
    own_gradients: np.ndarray  # (2, latents), of the bits in bands of even and of odd numbers
    feature_gradients: np.ndarray
    around_gradients: np.ndarray  # (sums, rows, columns), for sums of surroundings
    copy_gradients: np.ndarray  # (3, copies), of bands of even and of odd numbers, and their sum


def make_table(shapes: Sequence[tuple[int, int]]) -> tuple[np.ndarray, int, int]:
    """Return the table for grids of shapes (rows, columns), the finest first, the length of the
    array of latents, and that of features' gradients."""
    table = np.zeros((len(shapes), TABLE_COLUMNS), np.int64)
    latents = features = parameters = 0
    for k, (rows, columns) in enumerate(shapes):
        stride = columns + 2 * BORDER
        table[k, :5] = rows, columns, stride, latents + BORDER * stride + BORDER, parameters
        latents += (rows + BORDER) * stride
        parameters += rows * columns
        for up, (coarse_rows, coarse_columns) in enumerate(shapes[k + 1 :][:FEATURES], 1):
            table[k, FEATURE_START + up] = features
            features += coarse_rows * coarse_columns
    return table, latents, features


def copy_places(shapes: Sequence[tuple[int, int]]) -> tuple[np.ndarray, int]:
    """Return where the copies of grids begin, enlarged or not, and the length of their array.

    The copy of grid k of the size of grid j, for 1 <= j <= k, begins at index (k, j); the copies of
    the size of grid 1 come first.
    """
    places, length = np.zeros((len(shapes), len(shapes)), np.int64), 0
    for size, (rows, columns) in enumerate(shapes):
        for k in range(max(1, size), len(shapes) if size else 0):
            places[k, size] = length
            length += rows * columns
    return places, length
