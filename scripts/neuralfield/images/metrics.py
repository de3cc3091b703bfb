"""Metrics that compare an image with a reference: PSNR, SSIM, GMSD and wrong pixels.

The functions take two images of equal shape (h, w, c), or (h, w), with values in [0, 1].
"""

import math
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from neuralfield.images.image import LUMA_WEIGHTS
from neuralfield.system.device import limit_blas_to_one_core
from neuralfield.system.errors import InputError

IDENTICAL_DB = 200.0
"""PSNR of identical images in places where a finite number is required, such as JSON.

In practice, the PSNR of images in float32 that differ is lower: a difference in the last bit of one
value in an image of 250,000 pixels gives 198 dB.
"""

WINDOW_TAPS = 11
WINDOW_SIGMA = 1.5
K1, K2 = 0.01, 0.03
_BLOCK_PX, _BLOCK_ROWS = 1024, 64
"""Columns and rows of the block that a thread computes at a time, which fits in a cache."""

_STEP_PX = 16
"""Number of positions of the window in one matrix product; see `_blurred`."""

_GMSD_C = 170 / 255**2
"""Constant c of GMSD: the paper's 170 is for levels up to 255, but values here are in [0, 1]."""


def psnr_db(image: np.ndarray, reference: np.ndarray) -> float:
    """Compute the peak signal-to-noise ratio in decibels: ``-10 log10(mean squared error)``.

    The peak is 1. The result is infinite for identical images.
    """
    image, reference = _checked(image, reference)
    squared_error = float(np.mean(np.square(image - reference)))
    return -10.0 * math.log10(squared_error) if squared_error > 0 else math.inf


def ssim(image: np.ndarray, reference: np.ndarray) -> float:
    """Compute the mean structural similarity over positions and channels; 1 for identical images.

    The window is a Gaussian of 11 x 11 taps with sigma 1.5; K1 = 0.01, K2 = 0.03, with population
    covariance, over the positions where the whole window is inside the image. If a side is shorter
    than the window, the window has the largest odd number of taps that fits, with the same sigma
    and a sum of one. Every image therefore has a value, but values of such small images are not
    comparable with others.

    Z. Wang, A. C. Bovik, H. R. Sheikh and E. P. Simoncelli, "Image quality assessment: from error
    visibility to structural similarity", IEEE Transactions on Image Processing 13 (4), 2004.
    """
    total, count = _similarity(*_checked(image, reference), map)
    return total / count


def wrong_pixels(image: np.ndarray, reference: np.ndarray, threshold: float = 0.5) -> int:
    """Count the pixels of a black-and-white image whose colour differs from the reference.

    Values of at least `threshold` are white. A pixel with several channels is wrong if any channel
    is wrong. Raises `InputError` if the shapes differ or there are no pixels.
    """
    image, reference = _checked(image, reference)
    return int(np.count_nonzero(((image >= threshold) != (reference >= threshold)).any(axis=2)))


def gmsd(image: np.ndarray, reference: np.ndarray) -> float:
    """Compute the gradient magnitude similarity deviation of luma, a measure of visible errors.

    It is 0 for identical images; below about 0.05, errors are hard to see. Alpha is ignored.

    Both images are averaged over blocks of 2 x 2 pixels. m is the gradient magnitude, computed with
    Prewitt's filter, where the outermost pixels are repeated beyond the border. The similarity of
    each pixel is ``(2 m_r m_i + c) / (m_r^2 + m_i^2 + c)`` with c = 170 / 255^2, and the result is
    its standard deviation over the image: equations 1 to 6 of W. Xue, L. Zhang, X. Mou and A. C.
    Bovik, "Gradient magnitude similarity deviation: a highly efficient perceptual image quality
    index", IEEE Transactions on Image Processing 23 (2), 2014.
    """
    seen, true = (_gradient_lengths(values) for values in _checked(image, reference))
    similarity = (2 * seen * true + _GMSD_C) / (seen**2 + true**2 + _GMSD_C)
    return float(similarity.std())


def _gradient_lengths(values: np.ndarray) -> np.ndarray:
    """Return the gradient magnitudes at half the image's size, which `gmsd` compares."""
    colours = values[..., :3]
    values = colours @ LUMA_WEIGHTS if colours.shape[2] == 3 else colours[..., 0]
    # the last row or column of an odd side is ignored
    rows, columns = (max(1, side // 2) for side in values.shape)
    block = [min(2, side) for side in values.shape]
    values = values[: rows * block[0], : columns * block[1]]
    small = values.reshape(rows, block[0], columns, block[1]).mean(axis=(1, 3))
    padded = np.pad(small, 1, mode="edge")
    down = (padded[2:] - padded[:-2]) / 3
    across = (padded[:, 2:] - padded[:, :-2]) / 3
    down = down[:, :-2] + down[:, 1:-1] + down[:, 2:]
    across = across[:-2] + across[1:-1] + across[2:]
    return np.hypot(down, across)


def as_seen(values: np.ndarray) -> np.ndarray:
    """Return the values with which images are compared: colour is multiplied by alpha.

    The colour of fully transparent pixels is invisible, and image editors store any value there.
    `values` are floats of shape (h, w, c), not premultiplied; an image without alpha is returned
    unchanged.
    """
    if values.shape[2] != 4:
        return values
    return np.concatenate([values[..., :3] * values[..., 3:], values[..., 3:]], axis=2)


def finite_db(value_db: float) -> float:
    """Limit a PSNR, which may be infinite, to ``IDENTICAL_DB``, so that JSON can hold it."""
    return min(value_db, IDENTICAL_DB)


def _checked(image: np.ndarray, reference: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    image, reference = np.asarray(image, np.float64), np.asarray(reference, np.float64)
    if image.shape != reference.shape or image.ndim not in (2, 3) or image.size == 0:
        raise InputError(
            "comparison of two images",
            f"shapes {image.shape} and {reference.shape}",
            "two images of equal height, width and channels, with at least one pixel",
        )
    if image.ndim == 2:
        image, reference = image[..., None], reference[..., None]
    return image, reference


def _similarity(
    image: np.ndarray, reference: np.ndarray, map_blocks: Callable[..., Iterable[float]]
) -> tuple[float, int]:
    """Return the sum of the structural similarity over window positions and channels.

    The second result is the number of these values. `map_blocks` is `map`, or an equivalent that
    uses threads.
    """
    height, width, channels = image.shape
    rows, columns = (side - _taps(side) + 1 for side in (height, width))
    blocks = [
        np.s_[top : top + _BLOCK_ROWS + WINDOW_TAPS - 1, left : left + _BLOCK_PX + WINDOW_TAPS - 1]
        for top in range(0, rows, _BLOCK_ROWS)
        for left in range(0, columns, _BLOCK_PX)
    ]

    def sum_of(block: tuple[slice, slice]) -> float:
        return _similarity_of_block(image[block], reference[block])

    with limit_blas_to_one_core():  # threads of the BLAS do not speed up small products
        return sum(map_blocks(sum_of, blocks)), rows * columns * channels


def _similarity_of_block(image: np.ndarray, reference: np.ndarray) -> float:
    """Return the sum of the structural similarity over window positions and channels of a block."""
    x, y = (np.moveaxis(values, 2, 0).astype(np.float64, "C") for values in (image, reference))
    planes = np.stack([x, y, x * x + y * y, x * y])
    for _ in range(2):
        planes = _blurred(planes.swapaxes(2, 3))
    mean_x, mean_y, squares, products = planes
    of_means, of_squares = 2 * mean_x * mean_y, mean_x * mean_x + mean_y * mean_y
    # twice the covariance, and the sum of both variances
    covariance, variances = 2 * products - of_means, squares - of_squares
    c1, c2 = K1**2, K2**2
    similarity = (of_means + c1) * (covariance + c2) / ((of_squares + c1) * (variances + c2))
    return float(similarity.sum())


def _blurred(planes: np.ndarray) -> np.ndarray:
    """Blur along the last axis, at the positions where the whole window is inside.

    The blur is a matrix product: each column of the matrix contains the window at one position and
    zeros elsewhere. Although most elements are zero, the BLAS is faster than a sum over the taps
    with NumPy.
    """
    taps = _taps(planes.shape[-1])
    matrix, kept = _window_matrix(taps), planes.shape[-1] - taps + 1
    blurred = np.empty((*planes.shape[:-1], kept))
    if end := kept - kept % _STEP_PX:
        under = sliding_window_view(planes, len(matrix), axis=-1)[..., ::_STEP_PX, :]
        steps = blurred[..., :end].reshape(*planes.shape[:-1], -1, _STEP_PX)
        np.matmul(under.swapaxes(-2, -3), matrix, out=steps.swapaxes(-2, -3))
    rest = matrix[: planes.shape[-1] - end, : kept - end]
    np.matmul(planes[..., end:], rest, out=blurred[..., end:])
    return blurred


def _taps(side: int) -> int:
    """Return the number of taps of the window along a side of an image."""
    return min(WINDOW_TAPS, side - 1 + side % 2)


@cache
def _window_matrix(taps: int) -> np.ndarray:
    """Return a matrix whose columns contain the window at `_STEP_PX` successive positions."""
    offsets = np.arange(taps) - taps // 2
    weights = np.exp(-(offsets**2) / (2 * WINDOW_SIGMA**2))
    matrix = np.zeros((taps + _STEP_PX - 1, _STEP_PX))
    for position in range(_STEP_PX):
        matrix[position : position + taps, position] = weights / weights.sum()
    return matrix


class RunningMetrics:
    """PSNR and SSIM of two images that are given in bands from top to bottom.

    For images with one channel, wrong pixels are counted, too. The SSIM of a band is computed by
    `threads` threads; results do not depend on their number.
    """

    def __init__(self, threads: int = 1) -> None:
        self._pool = ThreadPoolExecutor(threads)
        self.wrong_pixels = 0
        self._error, self._count = 0.0, 0
        self._error_at_seams, self._count_at_seams = 0.0, 0
        self._similarity, self._positions = 0.0, 0
        self._above: tuple[np.ndarray, np.ndarray] | None = None

    def add(self, image: np.ndarray, reference: np.ndarray, at_seams: np.ndarray) -> None:
        """Add the next rows of both images; float32 in [0, 1], shape (rows, width, channels).

        `at_seams` is True for pixels at a seam between tiles, shape (rows, width).
        """
        starts = range(0, image.shape[1], _BLOCK_PX)
        parts = [np.s_[:, start : start + _BLOCK_PX] for start in starts]
        for error, error_at_seams, count_at_seams, wrong in self._pool.map(
            lambda part: _errors(image[part], reference[part], at_seams[part]), parts
        ):
            self._error += error
            self._error_at_seams += error_at_seams
            self._count_at_seams += count_at_seams
            self.wrong_pixels += wrong
        self._count += image.size
        self._add_similarity(image, reference)

    def psnr_db(self) -> float:
        """Return the PSNR; `IDENTICAL_DB` for identical images."""
        return _psnr_db(self._error, self._count)

    def seam_psnr_db(self) -> float | None:
        """Return the PSNR of the pixels at seams; None if there are no seams."""
        if not self._count_at_seams:
            return None
        return _psnr_db(self._error_at_seams, self._count_at_seams)

    def ssim(self) -> float:
        if self._positions:
            return self._similarity / self._positions
        assert self._above is not None
        return ssim(*self._above)  # the image has fewer rows than a window

    def _add_similarity(self, image: np.ndarray, reference: np.ndarray) -> None:
        """Add the window positions that end in the new rows; keep the rows that later ones need."""
        if self._above is not None:
            image = np.concatenate([self._above[0], image])
            reference = np.concatenate([self._above[1], reference])
        positions = len(image) - WINDOW_TAPS + 1
        if positions >= 1:
            total, count = _similarity(image, reference, self._pool.map)
            self._similarity += total
            self._positions += count
            image, reference = image[positions:], reference[positions:]
        self._above = (image.copy(), reference.copy())


def _errors(
    image: np.ndarray, reference: np.ndarray, at_seams: np.ndarray
) -> tuple[float, float, int, int]:
    """Return the sums of squared errors of all pixels and of those at seams, the number of values
    at seams, and the number of wrong pixels."""
    squares = np.square(image - reference, dtype=np.float64).sum(axis=2)
    count = int(np.count_nonzero(at_seams)) * image.shape[2]
    wrong = wrong_pixels(image, reference) if image.shape[2] == 1 else 0
    return float(squares.sum()), float(squares[at_seams].sum()), count, wrong


def _psnr_db(error: float, count: int) -> float:
    return finite_db(-10 * math.log10(error / count) if error else math.inf)
