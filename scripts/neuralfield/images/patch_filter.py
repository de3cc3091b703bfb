"""Filtering of noise by groups of similar patches, at the size of an image.

`neuralfield.rendering.refining` filters enlarged images in the same way, by kernels.
"""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

_PATCH_PX, _REACH_PX, _STRIDE_PX, _GROUP = 4, 12, 2, 64
_BAND_PX = 64
"""Height of the bands in which groups are found, to limit the memory."""

_FAR = 9.0
"""Value beyond the border, unlike any of an image."""


def filter_patches(image: np.ndarray, threshold: float) -> np.ndarray:
    """Filter noise out of an image: float32, shape (height, width).

    Each group of similar patches is transformed by its principal components, and coefficients
    below the threshold become 0 (Dabov, Foi, Katkovnik & Egiazarian, "BM3D image denoising with
    shape-adaptive principal component analysis", SPARS, 2009; here of squares).
    """
    height, width = image.shape
    if min(height, width) < 2 * _PATCH_PX + 1:
        return image
    total, weight = np.zeros((2, height * width))
    rows, columns = (_corners(side) for side in image.shape)
    for first in range(0, len(rows), _BAND_PX // _STRIDE_PX):
        corners = _similar(image, rows[first : first + _BAND_PX // _STRIDE_PX], columns)
        _add_filtered(image, *corners, threshold, total, weight)
    return (total / weight).reshape(height, width).astype(np.float32)


def _corners(side: int) -> np.ndarray:
    """Return the first pixels of patches along an axis, up to the last possible one."""
    last = side - _PATCH_PX
    return np.unique(np.append(np.arange(0, last + 1, _STRIDE_PX), last))


def _similar(
    image: np.ndarray, rows: np.ndarray, columns: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows and columns of the patches of each group, both of shape (groups, patches)."""
    height, width = image.shape
    band = image[rows[0] : rows[-1] + _PATCH_PX]
    around = np.pad(image, _REACH_PX, constant_values=_FAR)
    moves = np.arange(-_REACH_PX, _REACH_PX + 1)
    offsets = np.stack(np.meshgrid(moves, moves, indexing="ij"), -1).reshape(-1, 2)
    distances = np.empty((len(offsets), len(rows), len(columns)), np.float32)
    for index, (down, across) in enumerate(offsets):
        top, left = _REACH_PX + down + rows[0], _REACH_PX + across
        squares = (band - around[top : top + len(band), left : left + width]) ** 2
        sums = sliding_window_view(squares, _PATCH_PX, axis=0)[rows - rows[0]].sum(-1)
        distances[index] = sliding_window_view(sums, _PATCH_PX, axis=1)[:, columns].sum(-1)
    distances[(offsets == 0).all(-1)] = -1  # a patch is part of its own group
    nearest = np.argpartition(distances.reshape(len(offsets), -1), _GROUP, axis=0)[:_GROUP].T
    down, across = np.moveaxis(offsets[nearest], -1, 0)
    own_row, own_column = (
        axis.reshape(-1, 1) for axis in np.meshgrid(rows, columns, indexing="ij")
    )
    return (
        np.clip(own_row + down, 0, height - _PATCH_PX),
        np.clip(own_column + across, 0, width - _PATCH_PX),
    )


def _add_filtered(
    image: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
    threshold: float,
    total: np.ndarray,
    weight: np.ndarray,
) -> None:
    """Filter groups, and add their patches to the weighted sums `total` and to their weights."""
    patches = sliding_window_view(image, (_PATCH_PX, _PATCH_PX))[rows, columns]
    groups = patches.reshape(*rows.shape, _PATCH_PX**2).astype(np.float32)
    means = groups.mean(axis=1, keepdims=True)
    centred = groups - means
    covariances = centred.transpose(0, 2, 1).astype(np.float64) @ centred
    components = np.linalg.eigh(covariances)[1].astype(np.float32)
    coefficients = centred @ components
    is_kept = np.abs(coefficients) > threshold
    filtered = (coefficients * is_kept) @ components.transpose(0, 2, 1) + means
    weights = 1 / (1 + is_kept.sum(axis=(1, 2)))
    inside = np.arange(_PATCH_PX)
    places = rows[..., None, None] + inside[:, None], columns[..., None, None] + inside
    indices = (places[0] * image.shape[1] + places[1]).ravel()
    shares = np.broadcast_to(weights[:, None, None], filtered.shape)
    total += np.bincount(indices, (filtered * shares).ravel(), len(total))
    weight += np.bincount(indices, shares.ravel(), len(weight))
