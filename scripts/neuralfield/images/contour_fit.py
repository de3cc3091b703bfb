"""A fit of sharp contours between ink and paper to a blurred and noisy image.

The drawing is a smooth function, a grid of cubic B-splines, followed by a steep sigmoid. It is
fitted so that its means over pixels, blurred, are the image. That removes blur, and noise that no
contour explains.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from neuralfield.images.resizing import resize_channel

_FINE = 4
"""Number of points of the drawing along each side of a pixel."""

_TILE_PX, _MARGIN_PX = 128, 16
"""Side of the parts that are fitted on their own, and how far they extend over their neighbours."""

_CONTRAST = 6.0
"""Gradient of the first drawing at contours, as a multiple of the image's."""

_LEARNING_RATE, _BETA1, _BETA2, _EPSILON = 0.1, 0.9, 0.99, 1e-3


class Splines(NamedTuple):
    """How finely contours are described."""

    per_px: int  # splines along each side of a pixel
    steepness: float
    steps: int


SMOOTH, FINE = Splines(1, 24.0, 150), Splines(2, 8.0, 200)
"""For images with noise, which finer contours would follow, and without."""


def fit_contours(image: np.ndarray, blur_px: float, splines: Splines, threads: int) -> np.ndarray:
    """Return the drawing behind an image, reduced to the image's size by the box filter.

    `image` is float32, shape (height, width); ink is 0 and paper 1. Results do not depend on the
    number of threads, if the BLAS takes one core for each product.
    """
    height, width = image.shape
    found = np.empty(image.shape, np.float32)

    def fit_tile(corner: tuple[int, int]) -> None:
        window, inside, kept = [], [], []
        for first, side in zip(corner, (height, width), strict=True):
            start, end = max(0, first - _MARGIN_PX), min(side, first + _TILE_PX + _MARGIN_PX)
            last = min(first + _TILE_PX, side)
            window.append(slice(start, end))
            inside.append(slice(first - start, last - start))
            kept.append(slice(first, last))
        found[tuple(kept)] = _fit(image[tuple(window)], blur_px, splines)[tuple(inside)]

    corners = [(y, x) for y in range(0, height, _TILE_PX) for x in range(0, width, _TILE_PX)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(fit_tile, corners))
    return found


def _fit(image: np.ndarray, blur_px: float, splines: Splines) -> np.ndarray:
    """Fit one tile by Adam; see `fit_contours`."""
    sides = [splines.per_px * side for side in image.shape]
    down, across = (_splines(splines.per_px * side, _FINE * side) for side in image.shape)
    above, beside = (_blurred_means(side, blur_px) for side in image.shape)
    first = resize_channel(np.ascontiguousarray(image), (sides[1], sides[0]), "lanczos") - 0.5
    weights = (first * np.float32(_CONTRAST / splines.steepness)).astype(np.float32)
    steepness = np.float32(splines.steepness)
    mean, square = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(splines.steps):
        drawing = _sigmoid(steepness * (down @ weights @ across.T))
        error = above @ drawing @ beside.T - image
        back = (above.T @ error @ beside) * drawing * (1 - drawing)
        gradient = down.T @ back @ across * (steepness * np.float32(splines.per_px**2))
        mean += np.float32(1 - _BETA1) * (gradient - mean)
        square += np.float32(1 - _BETA2) * (gradient**2 - square)
        rate = _LEARNING_RATE * min(1, 2 * (1 - step / splines.steps)) / (1 - _BETA1 ** (step + 1))
        scale = np.float32(1 / (1 - _BETA2 ** (step + 1)))
        weights -= np.float32(rate) * mean / (np.sqrt(square * scale) + np.float32(_EPSILON))
    drawing = _sigmoid(steepness * (down @ weights @ across.T))
    return drawing.reshape(image.shape[0], _FINE, image.shape[1], _FINE).mean(axis=(1, 3))


def _sigmoid(z: np.ndarray) -> np.ndarray:
    return np.float32(0.5) + np.float32(0.5) * np.tanh(np.float32(0.5) * z)


def _splines(count: int, points: int) -> np.ndarray:
    """Return the values of `count` cubic B-splines along an axis at `points` points."""
    centres = (np.arange(points) + 0.5) * count / points - 0.5
    t = np.abs(centres[:, None] - np.arange(count))
    near, far = (4 - 6 * t**2 + 3 * t**3) / 6, np.clip(2 - t, 0, None) ** 3 / 6
    values = np.where(t < 1, near, far)
    return (values / values.sum(axis=1, keepdims=True)).astype(np.float32)


def _blurred_means(side: int, blur_px: float) -> np.ndarray:
    """Return the weights with which points along an axis add up to blurred means over pixels."""
    points = (np.arange(-8 * _FINE, (side + 8) * _FINE) + 0.5) / _FINE - 0.5
    fine = np.arange(-0.5 + 1 / 64, 0.5, 1 / 32)  # the square of a pixel
    distances = points[None, :, None] - np.arange(side)[:, None, None] - fine
    if blur_px:
        weights = np.exp(-(distances**2) / (2 * blur_px**2)).sum(axis=-1)
    else:
        weights = (np.abs(points[None] - np.arange(side)[:, None]) < 0.5).astype(np.float64)
    inside = weights[:, 8 * _FINE : -8 * _FINE]
    inside[:, 0] += weights[:, : 8 * _FINE].sum(axis=1)
    inside[:, -1] += weights[:, -8 * _FINE :].sum(axis=1)
    return (inside / inside.sum(axis=1, keepdims=True)).astype(np.float32)
