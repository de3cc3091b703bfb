"""Filtering of noise by groups of similar patches, at the size of an image.

`neuralfield.rendering.refining` filters enlarged images in the same way as `filter_patches`, by
kernels.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

_REACH_PX, _BAND_PX = 12, 64
"""Largest distance of similar patches along each axis, and the height of the bands in which groups
are found, to limit the memory."""

_LEAST_EIGENVALUE = 1e-3
"""Least eigenvalue of the noise as a share of the largest one: some estimates are negative."""

_MOST_THREADS = 4
"""Each has the patches of a band in memory."""

_FAR = 9.0
"""Value beyond the border, unlike any of an image."""


_Corners = tuple[np.ndarray, np.ndarray]
"""The rows and columns of the patches of groups, both of shape (groups, patches)."""


class _Groups(NamedTuple):
    """The side of patches, the distance of the first ones of groups, and the size of a group."""

    patch_px: int
    stride_px: int
    size: int


_FIRST, _GUIDED = _Groups(4, 2, 64), _Groups(6, 3, 32)
"""Without a guide, patches of less pixels and larger groups are needed to find similar ones."""


def filter_patches(image: np.ndarray, threshold: float, threads: int = 1) -> np.ndarray:
    """Filter noise out of an image: float32, shape (height, width).

    Each group of similar patches is transformed by its principal components, and coefficients
    below the threshold become 0 (Dabov, Foi, Katkovnik & Egiazarian, "BM3D image denoising with
    shape-adaptive principal component analysis", SPARS, 2009; here of squares). The result does not
    depend on the number of threads.
    """
    if min(image.shape) < 2 * _FIRST.patch_px + 1:
        return image

    def filtered(corners: _Corners) -> tuple[np.ndarray, np.ndarray]:
        means, centred = _patches(image, corners, _FIRST)
        covariances = centred.transpose(0, 2, 1).astype(np.float64) @ centred
        components = np.linalg.eigh(covariances)[1].astype(np.float32)
        coefficients = centred @ components
        is_kept = np.abs(coefficients) > threshold
        found = (coefficients * is_kept) @ components.transpose(0, 2, 1) + means
        return found, is_kept.sum(axis=(1, 2))

    return _mean_of_groups(image, _FIRST, filtered, threads)


def filter_guided(
    image: np.ndarray, guide: np.ndarray, autocovariance: np.ndarray, threads: int = 1
) -> np.ndarray:
    """Filter noise out of an image that is known roughly: both float32, shape (height, width).

    Groups are those of similar patches of the guide. Each is filtered by the Wiener filter of the
    covariances of its patches in the guide, and of the noise: the second step of BM3D (Dabov, Foi,
    Katkovnik & Egiazarian, "Image denoising by sparse 3-D transform-domain collaborative
    filtering", IEEE Transactions on Image Processing, 2007), of patches as vectors. The noise may
    be correlated: its autocovariance by distance, shape (n, n), n odd, has distance 0 in the
    centre.
    """
    if min(image.shape) < 2 * _GUIDED.patch_px + 1:
        return image
    noise = _covariance(autocovariance, _GUIDED.patch_px)

    def filtered(corners: _Corners) -> tuple[np.ndarray, np.ndarray]:
        means, centred = _patches(image, corners, _GUIDED)
        guiding = _patches(guide, corners, _GUIDED)[1].astype(np.float64)
        covariances = guiding.transpose(0, 2, 1) @ guiding / _GUIDED.size
        weights = np.linalg.solve(covariances + noise, covariances)
        found = centred @ weights.astype(np.float32) + means
        return found, np.trace(weights, axis1=1, axis2=2)

    return _mean_of_groups(guide, _GUIDED, filtered, threads)


def _covariance(autocovariance: np.ndarray, patch_px: int) -> np.ndarray:
    """Return the covariance of the noise of the pixels of a patch, with positive eigenvalues."""
    reach = len(autocovariance) // 2
    padded = np.pad(autocovariance, patch_px)
    y, x = (axis.ravel() for axis in np.mgrid[:patch_px, :patch_px])
    down, across = (np.clip(p[:, None] - p, -reach - 1, reach + 1) for p in (y, x))
    found = padded[reach + patch_px + down, reach + patch_px + across]
    values, vectors = np.linalg.eigh(found)
    return (vectors * np.maximum(values, _LEAST_EIGENVALUE * values.max())) @ vectors.T


def _mean_of_groups(
    like: np.ndarray,
    groups: _Groups,
    filtered: Callable[[_Corners], tuple[np.ndarray, np.ndarray]],
    threads: int,
) -> np.ndarray:
    """Return the mean of filtered patches at each pixel, of groups that are similar in `like`.

    Groups whose patches have a larger number of free parameters have more noise, and count less.
    """
    rows, columns = (_corners(side, groups) for side in like.shape)
    count = _BAND_PX // groups.stride_px
    bands = [rows[first : first + count] for first in range(0, len(rows), count)]
    total, weight = np.zeros((2, like.size))
    inside = np.arange(groups.patch_px)

    def of_band(band: np.ndarray) -> tuple[_Corners, np.ndarray, np.ndarray]:
        corners = _similar(like, band, columns, groups)
        return corners, *filtered(corners)

    with ThreadPoolExecutor(min(threads, _MOST_THREADS)) as pool:
        for corners, patches, freedom in pool.map(of_band, bands):
            down, across = (axis[..., None, None] for axis in corners)
            indices = ((down + inside[:, None]) * like.shape[1] + across + inside).ravel()
            shares = np.broadcast_to((1 / (1 + freedom))[:, None, None], patches.shape)
            total += np.bincount(indices, (patches * shares).ravel(), like.size)
            weight += np.bincount(indices, shares.ravel(), like.size)
    return (total / weight).reshape(like.shape).astype(np.float32)


def _patches(
    image: np.ndarray, corners: _Corners, groups: _Groups
) -> tuple[np.ndarray, np.ndarray]:
    """Return the means of groups, and their patches without them; (groups, patches, px)."""
    found = sliding_window_view(image, (groups.patch_px, groups.patch_px))[corners]
    patches = found.reshape(*corners[0].shape, groups.patch_px**2).astype(np.float32)
    means = patches.mean(axis=1, keepdims=True)
    return means, patches - means


def _corners(side: int, groups: _Groups) -> np.ndarray:
    """Return the first pixels of patches along an axis, up to the last possible one."""
    last = side - groups.patch_px
    return np.unique(np.append(np.arange(0, last + 1, groups.stride_px), last))


def _similar(image: np.ndarray, rows: np.ndarray, columns: np.ndarray, groups: _Groups) -> _Corners:
    """Return the patches that are nearest to those with their corners at rows and columns."""
    height, width = image.shape
    patch_px = groups.patch_px
    band = image[rows[0] : rows[-1] + patch_px]
    around = np.pad(image, _REACH_PX, constant_values=_FAR)
    moves = np.arange(-_REACH_PX, _REACH_PX + 1)
    offsets = np.stack(np.meshgrid(moves, moves, indexing="ij"), -1).reshape(-1, 2)
    distances = np.empty((len(offsets), len(rows), len(columns)), np.float32)
    for index, (down, across) in enumerate(offsets):
        top, left = _REACH_PX + down + rows[0], _REACH_PX + across
        squares = (band - around[top : top + len(band), left : left + width]) ** 2
        sums = sliding_window_view(squares, patch_px, axis=0)[rows - rows[0]].sum(-1)
        distances[index] = sliding_window_view(sums, patch_px, axis=1)[:, columns].sum(-1)
    distances[(offsets == 0).all(-1)] = -1  # a patch is part of its own group
    nearest = np.argpartition(distances.reshape(len(offsets), -1), groups.size, axis=0)[
        : groups.size
    ].T
    down, across = np.moveaxis(offsets[nearest], -1, 0)
    own_row, own_column = (
        axis.reshape(-1, 1) for axis in np.meshgrid(rows, columns, indexing="ij")
    )
    return (
        np.clip(own_row + down, 0, height - patch_px),
        np.clip(own_column + across, 0, width - patch_px),
    )
