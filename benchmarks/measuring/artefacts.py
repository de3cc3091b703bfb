"""Visible errors of renders: specks in flat parts, and ringing beside edges."""

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

_LEVELS = 255
_FLAT_LEVELS = 4
"""Maximum difference of the true image around a pixel, in levels, for the pixel to be flat."""

_RINGING_PERCENTILE = 99.9


@dataclass(frozen=True)
class Artefacts:
    """The most visible errors of a render, in levels of 255.

    Attributes
    ----------
    specks : float
        The largest difference from the true image in its flat parts, where the true image differs
        by no more than 4 levels within two training pixels. NaN if there are no flat parts.
    ringing : float
        The distance of values outside the range that the true image has within a training pixel,
        which one pixel in a thousand exceeds.
    """

    specks: float
    ringing: float

    @classmethod
    def of(cls, redraw: np.ndarray, truth: np.ndarray, factor: int) -> "Artefacts":
        """Measure a render that is `factor` times as large as the training image.

        Parameters
        ----------
        redraw, truth : ndarray of float32, shape (height, width, channels)
            The render and the true image.
        """
        lowest, highest = surroundings(truth, 2 * factor)
        is_flat = highest - lowest <= _FLAT_LEVELS / _LEVELS
        specks = np.abs(redraw - truth)[is_flat].max(initial=0) if is_flat.any() else np.nan
        lowest, highest = surroundings(truth, factor)
        outside = np.maximum(np.maximum(redraw - highest, lowest - redraw), 0)
        ringing = np.percentile(outside, _RINGING_PERCENTILE)
        return cls(float(_LEVELS * specks), float(_LEVELS * ringing))


def surroundings(image: np.ndarray, radius: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the minimum and maximum in the square around each pixel, for each channel."""
    lowest = highest = image
    for axis in (0, 1):
        margin = [(radius, radius) if axis == a else (0, 0) for a in range(3)]
        lowest, highest = (
            reduce(sliding_window_view(np.pad(p, margin, "edge"), 2 * radius + 1, axis), axis=-1)
            for p, reduce in ((lowest, np.min), (highest, np.max))
        )
    return lowest, highest
