"""What the rate model is given: decoded values near a latent, in its own grid and in coarser ones.

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

FEATURES = 6
"""Number of inputs from coarser grids, see `coarse_features`."""

INPUTS = len(NEIGHBOURS) + FEATURES
"""Number of inputs and of hidden values of the rate model: neighbours first, then features."""

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

    Latent (y, x) has six: at half its position, the nearest latent of grid k + 1, then its
    neighbours on the side of (y, x), horizontally, vertically and diagonally (outside the grid,
    that is the nearest latent itself); the latents at a quarter in grid k + 2, and at an eighth in
    grid k + 3. Those of missing grids are 0.

    Parameters
    ----------
    latents : sequence of ndarray
        The grids, the finest first, integers; grids up to k are only asked for their shape.
    k : int
        Number of the grid.

    Returns
    -------
    ndarray
        Shape (6, rows, columns), of the type of the latents.
    """
    rows, columns = (np.arange(length) for length in latents[k].shape)
    features = np.zeros((FEATURES, rows.size, columns.size), latents[k].dtype)
    if k + 1 < len(latents):
        coarse = latents[k + 1]
        sides = []
        for place, length in ((rows, coarse.shape[0]), (columns, coarse.shape[1])):
            near = place >> 1
            sides.append((near, np.clip(near + 2 * (place & 1) - 1, 0, length - 1)))
        (near_y, other_y), (near_x, other_x) = sides
        for feature, (y, x) in enumerate(
            ((near_y, near_x), (near_y, other_x), (other_y, near_x), (other_y, other_x))
        ):
            features[feature] = coarse[y[:, None], x]
    for feature, up in ((4, 2), (5, 3)):
        if k + up < len(latents):
            features[feature] = latents[k + up][rows[:, None] >> up, columns >> up]
    return features
