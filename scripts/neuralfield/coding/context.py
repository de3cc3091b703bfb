"""The inputs of the rate model: decoded values near a latent, in its own grid and in coarser ones;
and the latents around a pixel, which are inputs of its synthesis.

Grid k has ceil(height / 2^k) x ceil(width / 2^k) latents, integers. The decoder and the training
both take their inputs from here; docs/format.md describes them.
"""

from collections.abc import Sequence

import numpy as np

NEIGHBOURS = (
    *((0, -1), (-1, 0), (-1, -1), (-1, 1), (0, -2), (-2, 0), (-1, -2), (-1, 2)),
    *((-2, -1), (-2, 1), (-2, -2), (-2, 2), (0, -3), (-3, 0)),
)
"""Offsets (rows, columns) of the neighbours in the same grid, the nearest first; a neighbour
outside the grid is 0."""

WAVE_STEP = 3
"""Latent (y, x) is decoded in wave x + WAVE_STEP y: all of its neighbours are in earlier waves."""

FEATURES = 4
"""Number of inputs from coarser grids, see `coarse_features`."""

INPUTS = len(NEIGHBOURS) + FEATURES
"""Number of inputs and of hidden values of the rate model: neighbours first, then features."""

SURROUNDINGS = (
    ((0, -1), (0, 1)),
    ((-1, 0), (1, 0)),
    ((-1, -1), (-1, 1), (1, -1), (1, 1)),
    ((0, -2), (0, 2)),
    ((-2, 0), (2, 0)),
)
"""Offsets (rows, columns) around a latent of the finest grid: the means of their latents are inputs
of the synthesis, too. Places outside the grid are those of its ends. On three photographs, these
inputs reduced the sum of squared error and weighted bits by 5 %."""

AROUND = [(i, *offset) for i, offsets in enumerate(SURROUNDINGS) for offset in offsets]
"""The number of the input, and the offset, of each latent of `SURROUNDINGS`."""

MOST_GRIDS = 7
"""Maximum number of grids; the coarsest of smaller images has at least one latent."""


def grid_shapes(height: int, width: int, grids: int) -> list[tuple[int, int]]:
    """Return (rows, columns) of each grid, the finest first."""
    return [(-(-height // 2**k), -(-width // 2**k)) for k in range(grids)]


def usual_grids(height: int, width: int) -> int:
    """Return the number of grids for an image: 7, or as many as differ in size."""
    return min(MOST_GRIDS, 1 + (max(height, width) - 1).bit_length())


def coarse_features(latents: Sequence[np.ndarray], k: int) -> np.ndarray:
    """Return the features of the latents of grid k from the grids after it.

    Latent (y, x) has four: the latent (y >> j, x >> j) of grid k + j for j = 1 to 4. Those of
    missing grids are 0. (Neighbours in grid k + 1, on the side of (y, x), in place of the two
    coarsest took 0.8 % more bits and squared error together.)

    Parameters
    ----------
    latents : sequence of ndarray
        The grids, the finest first, integers; grids up to k are only asked for their shape.
    k : int
        Number of the grid.

    Returns
    -------
    ndarray
        Shape (4, rows, columns), of the type of the latents.
    """
    rows, columns = (np.arange(length) for length in latents[k].shape)
    features = np.zeros((FEATURES, rows.size, columns.size), latents[k].dtype)
    for up in range(1, FEATURES + 1):
        if k + up < len(latents):
            features[up - 1] = latents[k + up][rows[:, None] >> up, columns >> up]
    return features
