"""How close one picture is to another, in numbers.

All functions take two pictures of equal shape (h, w, c), or (h, w), with values in [0, 1].
"""

import math

import numpy as np

from neuralfield.system.errors import InputError

IDENTICAL_DB = 200.0
"""Stands for the infinite PSNR of identical pictures where a finite number is needed, as in JSON.

Float32 values in [0, 1] that differ anywhere stay below it in practice: a single last-bit
difference in a picture of 250,000 pixels is 198 dB.
"""

WINDOW_TAPS = 11
WINDOW_SIGMA = 1.5
K1, K2 = 0.01, 0.03


def psnr_db(image: np.ndarray, reference: np.ndarray) -> float:
    """Peak signal-to-noise ratio for a peak of 1.

    Parameters
    ----------
    image, reference : ndarray of float, shape (h, w, c) or (h, w)
        Values in [0, 1].

    Returns
    -------
    float
        ``-10 log10(mean squared error)`` in decibels; infinite for identical pictures.

    Raises
    ------
    InputError
        The shapes differ, or there are no pixels.

    Examples
    --------
    >>> round(psnr_db(np.full((2, 2), 0.6), np.full((2, 2), 0.5)), 6)
    20.0
    """
    image, reference = _checked(image, reference)
    squared_error = float(np.mean(np.square(image - reference)))
    return -10.0 * math.log10(squared_error) if squared_error > 0 else math.inf


def ssim(image: np.ndarray, reference: np.ndarray) -> float:
    """Structural similarity, averaged over the picture and its channels.

    Gaussian window of 11 x 11 taps with sigma 1.5, K1 = 0.01, K2 = 0.03, population covariance,
    over the positions where the whole window lies inside the picture. A side shorter than the
    window gets the largest odd number of taps that fits, with the same sigma and a sum of one,
    so that every picture has a value; those values are not comparable with full windows.

    Parameters
    ----------
    image, reference : ndarray of float, shape (h, w, c) or (h, w)
        Values in [0, 1].

    Returns
    -------
    float
        1 for identical pictures.

    Raises
    ------
    InputError
        The shapes differ, or there are no pixels.

    References
    ----------
    Z. Wang, A. C. Bovik, H. R. Sheikh and E. P. Simoncelli, "Image quality assessment: from error
    visibility to structural similarity", IEEE Transactions on Image Processing 13 (4), 2004.
    """
    image, reference = _checked(image, reference)
    # One channel at a time: the five blurred planes are the memory peak.
    channels = range(image.shape[2])
    return float(np.mean([_ssim_of_plane(image[..., c], reference[..., c]) for c in channels]))


def wrong_pixels(image: np.ndarray, reference: np.ndarray, threshold: float = 0.5) -> int:
    """Count the pixels of a black-and-white picture that came out in the other colour.

    Parameters
    ----------
    image, reference : ndarray of float, shape (h, w, c) or (h, w)
        Values in [0, 1].
    threshold : float
        Values at or above it are white. A pixel of several channels is wrong if any of them is.

    Raises
    ------
    InputError
        The shapes differ, or there are no pixels.
    """
    image, reference = _checked(image, reference)
    return int(np.count_nonzero(((image >= threshold) != (reference >= threshold)).any(axis=2)))


def as_seen(values: np.ndarray) -> np.ndarray:
    """Give the values that two pictures should be compared by.

    Colour under full transparency cannot be seen, and editors leave anything there. So the colour
    of a picture of four channels is multiplied by its alpha, which then counts as the fourth
    channel; other pictures are returned as they are.

    Parameters
    ----------
    values : ndarray of float, shape (h, w, c)
        Values in [0, 1]; the alpha is not yet multiplied in.

    Returns
    -------
    ndarray of float, shape (h, w, c)
    """
    if values.shape[2] != 4:
        return values
    return np.concatenate([values[..., :3] * values[..., 3:], values[..., 3:]], axis=2)


def finite_db(value_db: float) -> float:
    """Replace an infinite or larger value by ``IDENTICAL_DB``, which JSON can hold."""
    return min(value_db, IDENTICAL_DB)


def _checked(image: np.ndarray, reference: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    image, reference = np.asarray(image, np.float64), np.asarray(reference, np.float64)
    if image.shape != reference.shape or image.ndim not in (2, 3) or image.size == 0:
        raise InputError(
            "comparison of two pictures",
            f"shapes {image.shape} and {reference.shape}",
            "two pictures of equal height, width and channels, with at least one pixel",
        )
    if image.ndim == 2:
        image, reference = image[..., None], reference[..., None]
    return image, reference


def _ssim_of_plane(x: np.ndarray, y: np.ndarray) -> float:
    mean_x, mean_y = _blurred(x), _blurred(y)
    variance_x = _blurred(x * x) - mean_x * mean_x
    variance_y = _blurred(y * y) - mean_y * mean_y
    covariance = _blurred(x * y) - mean_x * mean_y
    c1, c2 = K1**2, K2**2
    similarity = ((2 * mean_x * mean_y + c1) * (2 * covariance + c2)) / (
        (mean_x * mean_x + mean_y * mean_y + c1) * (variance_x + variance_y + c2)
    )
    return float(similarity.mean())


def _blurred(plane: np.ndarray) -> np.ndarray:
    """Weigh the neighbours along each axis, keeping only positions with all of them."""
    for _ in range(2):
        weights = _window(plane.shape[0])
        kept = plane.shape[0] - len(weights) + 1
        total = np.zeros((kept, plane.shape[1]))
        for tap, weight in enumerate(weights):
            total += weight * plane[tap : tap + kept]
        plane = total.T
    return plane


def _window(side: int) -> np.ndarray:
    taps = min(WINDOW_TAPS, side - 1 + side % 2)
    offsets = np.arange(taps) - taps // 2
    weights = np.exp(-(offsets**2) / (2 * WINDOW_SIGMA**2))
    return weights / weights.sum()
