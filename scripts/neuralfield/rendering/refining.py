"""Refining an enlarged image by what its similar patches agree on."""

import numpy as np

from neuralfield.engines.thread_pool import ThreadPool
from neuralfield.images.resizing import BACK_PROJECTIONS, back_projected

_NOISE = np.geomspace(26 / 255, 6.5 / 255, 6)
"""How far the image is supposed to be wrong in each round."""

_THRESHOLD = 2.7
"""Numbers of a transformed group below so many times the noise become 0."""

_MOMENTUM = 0.5
"""How much further each round goes into the direction of the one before."""

_CORRECTIONS = 2
"""Back-projections in a round."""

_REACH_PX, _STRIDE_PX, _BAND_PX = 12, 3, 16

_LEAST_PX = 9
"""A narrower image has no patches to compare."""


def refined(enlarged: np.ndarray, values: np.ndarray, *, threads: int = 1) -> np.ndarray:
    """Keep of an enlarged image what its similar patches agree on, and what the small one says.

    Each round corrects the image so that, reduced by the box filter, it is the small one, and then
    filters groups of similar patches together, with less force from round to round (Tirer & Giryes,
    "Image restoration by iterative denoising and backward projections", IEEE Transactions on Image
    Processing, 2019). Patches are transformed by the principal components of their group (Dabov,
    Foi, Katkovnik & Egiazarian, "BM3D image denoising with shape-adaptive principal component
    analysis", SPARS, 2009; here of squares). Groups are those of the given image: a filtered one
    looks more like itself than it should.

    Parameters
    ----------
    enlarged : ndarray of float32, shape (height, width, channels)
        In [0, 1]; a whole number of times as large as `values`.
    values : ndarray of float32, shape (small height, small width, channels)
        The small image.
    threads : int
        Processor cores to use; the result is the same for any number of them.

    Returns
    -------
    ndarray of float32, shape (height, width, channels)
        Not clipped.
    """
    height, width, channels = enlarged.shape
    small, planes = np.moveaxis(values, 2, 0), np.moveaxis(enlarged, 2, 0)
    # in the order of their variance: patches are compared by the first one
    colours = values.reshape(-1, channels) - values.mean(axis=(0, 1), dtype=np.float64)
    components = np.linalg.eigh(np.einsum("pc,pd->cd", colours, colours))[1].T[::-1]
    if min(height, width) < _LEAST_PX:
        return _consistent_image(planes, small)
    groups = _SimilarPatches(height, width, threads)
    try:
        before = planes
        for number, noise in enumerate(_NOISE):
            further = planes + np.float32(_MOMENTUM) * (planes - before)
            mixed = _mixed(_consistent(further, small, _CORRECTIONS), components)
            if number == 0:
                groups.find(mixed[0])
            filtered = groups.filtered(mixed, _THRESHOLD * noise)
            before, planes = planes, _mixed(filtered, components.T)
    finally:
        groups.close()
    return _consistent_image(planes, small)


class _SimilarPatches:
    """Groups of similar patches of an image, found and filtered in bands by all threads."""

    def __init__(self, height: int, width: int, threads: int) -> None:
        # imported here, because Numba takes a moment to start
        from neuralfield.engines.cpu.kernels import patches

        self._kernels, self._pool = patches, ThreadPool(threads)
        side = patches.PATCH_PX
        last = height - side, width - side
        tops, lefts = (np.append(np.arange(0, end, _STRIDE_PX), end) for end in last)
        self._corners = np.repeat(tops, len(lefts)), np.tile(lefts, len(tops))
        self._corners = tuple(places.astype(np.int32) for places in self._corners)
        self._found = np.empty((len(self._corners[0]), patches.GROUP, 2), np.int32)
        edges = np.arange(0, height + _BAND_PX, _BAND_PX)
        self._starts = np.searchsorted(self._corners[0], edges)

    def find(self, image: np.ndarray) -> None:
        """Find the groups; `image` has the shape (height, width)."""

        def find_in_band(band: int, _thread: int) -> None:
            part = self._starts[band : band + 2]
            self._kernels.find_similar(image, *self._corners, *part, _REACH_PX, self._found)

        self._pool.run(find_in_band, len(self._starts) - 1)

    def filtered(self, channels: np.ndarray, threshold: float) -> np.ndarray:
        """Filter the groups in each channel; float32, shape (channels, height, width)."""
        height = channels.shape[1]
        beyond_px = _REACH_PX + self._kernels.PATCH_PX
        totals: list[np.ndarray] = [channels] * (len(self._starts) - 1)
        tops = [max(_BAND_PX * band - _REACH_PX, 0) for band in range(len(totals))]

        def filter_band(band: int, _thread: int) -> None:
            rows = min(_BAND_PX * (band + 1) + beyond_px, height) - tops[band]
            totals[band] = np.zeros((2, len(channels), rows, channels.shape[2]), np.float32)
            part = self._starts[band : band + 2]
            bases = np.empty((part[1] - part[0], *[self._kernels.PATCH_PX**2] * 2), np.float32)
            for image, sums, weights in zip(channels, *totals[band], strict=True):
                self._kernels.find_bases(image, *part, self._found, bases)
                given = image, *part, self._found, bases, limit, tops[band]
                self._kernels.filter_groups(*given, sums, weights)

        limit = np.float32(threshold)
        self._pool.run(filter_band, len(totals))
        sums = np.zeros_like(channels)
        weights = np.zeros_like(channels)
        # in this order, whichever thread was first
        for top, (own_sums, own_weights) in zip(tops, totals, strict=True):
            rows = slice(top, top + own_sums.shape[1])
            sums[:, rows] += own_sums
            weights[:, rows] += own_weights
        return sums / weights

    def close(self) -> None:
        """Stop the threads."""
        self._pool.close()


def _consistent_image(planes: np.ndarray, small: np.ndarray) -> np.ndarray:
    """Return the corrected image with its channels last."""
    return np.ascontiguousarray(np.moveaxis(_consistent(planes, small, BACK_PROJECTIONS), 0, 2))


def _consistent(planes: np.ndarray, small: np.ndarray, rounds: int) -> np.ndarray:
    """Correct an image by the small one; shape (channels, height, width)."""
    pairs = zip(planes, small, strict=True)
    return np.stack([back_projected(large, values, rounds) for large, values in pairs])


def _mixed(planes: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Make each channel a sum of channels, with the weights of a row of the matrix."""
    mixed = np.zeros_like(planes, order="C")
    for total, weights in zip(mixed, matrix.astype(np.float32), strict=True):
        for weight, plane in zip(weights, planes, strict=True):
            if weight:
                total += weight * plane
    return mixed
