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
COPY_START = 5
"""Place of the first copy, enlarged or not, with the size of a grid: that of the grid itself, if it
is not the finest. Those of coarser grids follow, the finer first."""
FEATURE_START = 5
"""`FEATURE_START` + j is the place of the gradient that grid k + j gets from grid k."""
TABLE_COLUMNS = FEATURE_START + FEATURES + 1


class Arrays(NamedTuple):
    """The arrays that kernels exchange; float32 but for the first."""

    table: np.ndarray  # int64; latents and their gradients are where it says
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


def make_table(shapes: Sequence[tuple[int, int]]) -> tuple[np.ndarray, int, int, int]:
    """Return the table for grids of shapes (rows, columns), the finest first, and the lengths of
    the arrays of latents, of features' gradients and of copies."""
    table = np.zeros((len(shapes), TABLE_COLUMNS), np.int64)
    latents = features = parameters = copies = 0
    for k, (rows, columns) in enumerate(shapes):
        stride = columns + 2 * BORDER
        start = latents + BORDER * stride + BORDER
        table[k, :6] = rows, columns, stride, start, parameters, copies
        copies += (len(shapes) - k) * rows * columns if k else 0
        latents += (rows + BORDER) * stride
        parameters += rows * columns
        for up, (coarse_rows, coarse_columns) in enumerate(shapes[k + 1 :][:FEATURES], 1):
            table[k, FEATURE_START + up] = features
            features += coarse_rows * coarse_columns
    return table, latents, features, copies
