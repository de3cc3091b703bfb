"""The kernel by which a clean drawing was reduced, where it is not the mean over a pixel's square.

Bicubic and Lanczos have negative weights: an image becomes lighter and darker beside its edges.
What is beyond black and white is clipped, and the rest looks like faint lines. Most programs reduce
images of 8 bits along rows first, and clip what they keep in 8 bits. Hamming is smoother.
"""

import numpy as np

from neuralfield.images.contour_fit import FINE, Kernel, fit_contours
from neuralfield.images.degradation import highest_around

_PART_PX, _MOVE_PX = 96, 24
"""Side of the part of an image that kernels are compared in, and distance of possible parts."""

_TRIAL = FINE._replace(steps=60)

_GREY = 0.05
"""Difference from black and white of pixels that count as grey."""

_MOST_ERROR, _BETTER, _BETTER_THAN_BOX = 1.5 / 255, 1.25, 1.5
"""Largest error with the kernel, and how many times larger it is at least with the second best one,
and without one."""

_PAPER, _LEAST_RINGING = 0.9, 0.005
"""Least value of the neighbours of pixels that show the ringing of Lanczos, and least share of such
pixels that are not white. It is 2 % or more after Lanczos, and below 0.01 % in exact drawings."""


def _lanczos(t: np.ndarray) -> np.ndarray:
    return np.where(t < 3, np.sinc(t) * np.sinc(t / 3), 0)


def _bicubic(t: np.ndarray) -> np.ndarray:
    near, far = 1.5 * t**3 - 2.5 * t**2 + 1, -0.5 * t**3 + 2.5 * t**2 - 4 * t + 2
    return np.where(t < 1, near, np.where(t < 2, far, 0))


def _hamming(t: np.ndarray) -> np.ndarray:
    return np.where(t < 1, np.sinc(t) * (0.54 + 0.46 * np.cos(np.pi * t)), 0)


_KERNELS = (
    *(Kernel("Lanczos", _lanczos, clips_rows) for clips_rows in (True, False)),
    *(Kernel("bicubic", _bicubic, clips_rows) for clips_rows in (True, False)),
    Kernel("Hamming", _hamming, False),
)
"""Their weights are those of Pillow."""


def find_kernel(image: np.ndarray, threads: int) -> Kernel | None:
    """Return the kernel by which a sharp drawing without noise was reduced.

    The image is float32, shape (height, width), with ink 0 and paper 1. None is returned for the
    mean over a pixel's square, and if no kernel explains the image far better than all others.
    """
    part = _part_with_edges(image)
    is_open = (part > 0) & (part < 1)
    if not is_open.any():
        return None

    def error_with(kernel: Kernel | None) -> float:
        found = fit_contours(part, 0.0, _TRIAL, threads, kernel=kernel).image
        return float(np.sqrt(np.mean((found - part)[is_open] ** 2)))

    of_box = error_with(None)
    errors = {kernel: error_with(kernel) for kernel in _KERNELS}
    best = min(errors, key=errors.__getitem__)
    second = min(error for kernel, error in errors.items() if kernel.name != best.name)
    most = min(_MOST_ERROR, second / _BETTER, of_box / _BETTER_THAN_BOX)
    is_found = errors[best] < most and (best.name != "Lanczos" or _has_ringing(image))
    return best if is_found else None


def _has_ringing(image: np.ndarray) -> bool:
    is_faint = (image < 1) & (-highest_around(-image, 1) > _PAPER)
    return bool(is_faint.mean() > _LEAST_RINGING)


def _part_with_edges(image: np.ndarray) -> np.ndarray:
    """Return the part of an image that has the most grey pixels."""
    is_grey = (image > _GREY) & (image < 1 - _GREY)
    sums = np.pad(is_grey.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
    places = []
    for y in range(0, max(1, image.shape[0] - _PART_PX + 1), _MOVE_PX):
        for x in range(0, max(1, image.shape[1] - _PART_PX + 1), _MOVE_PX):
            bottom, right = (
                min(at + _PART_PX, s) for at, s in zip((y, x), image.shape, strict=True)
            )
            count = sums[bottom, right] - sums[y, right] - sums[bottom, x] + sums[y, x]
            places.append((int(count), -y, -x))
    _, y, x = max(places)
    return image[-y : -y + _PART_PX, -x : -x + _PART_PX]
