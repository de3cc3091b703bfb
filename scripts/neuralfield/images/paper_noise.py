"""The noise of a drawing's paper: its correlation, what a file clipped of it, and specks of it.

The grains of film, and pixels that a camera has interpolated, give neighbouring pixels like noise.
It is not removed by filters for white noise, and looks like small dots of ink.
"""

import math
from typing import NamedTuple, Self

import numpy as np

from neuralfield.images.degradation import highest_around

_LAG_PX = 3
"""Largest distance along each axis of pixels whose noise is correlated."""

_PAPER, _FEWEST = 0.98, 1000
"""Least value around pixels of paper, and the fewest of them that show how noise is correlated."""

_WHITE, _BLACK = 1 - 0.5 / 255, 0.5 / 255
"""Values in a file of 8 bits that are at its ends."""

_INK, _STRONG, _SIGNIFICANT, _CONTINUING = 0.99, 0.5, 6.0, 4.0
"""Largest values of ink and of ink that is never a speck, and least ratios to the noise of the ink
of isolated dots and of those at the end of other ink. Of 40 noisy drawings of sets a to d, specks
had at most 5.7, and all 820 faint isolated dots of the drawings more than 7."""

_DISTANCES = np.linspace(-6, 4, 256)
_EXPECTED = np.array(
    [
        math.exp(-(d**2) / 2) / math.sqrt(math.pi / 2) / math.erfc(d / math.sqrt(2))
        for d in _DISTANCES
    ]
)
"""Distances of an end from a value, and expected values of noise beyond it, as multiples of the
noise."""

_ALL, _UP, _DOWN = slice(None), slice(0, -1), slice(1, None)
_NEIGHBOURS = (
    ((_ALL, _UP), (_ALL, _DOWN)),
    ((_UP, _ALL), (_DOWN, _ALL)),
    ((_UP, _UP), (_DOWN, _DOWN)),
    ((_UP, _DOWN), (_DOWN, _UP)),
)
"""Slices of an image with pixels and those beside, below and at two corners of them."""


class PaperNoise(NamedTuple):
    """Noise that is correlated, as shares of the contrast between paper and ink."""

    autocovariance: np.ndarray  # shape (7, 7): of pixels up to 3 apart, by distance

    @classmethod
    def of(
        cls, residuals: np.ndarray, explained: np.ndarray, noise: float, *, is_clipped: bool
    ) -> Self:
        """Measure the noise of paper from what contours do not explain.

        All are of shape (height, width). White noise of the given level is assumed where there is
        hardly any paper. With `is_clipped`, paper is white, and noise above it was clipped; then
        correlations follow from those of the other half by the arc-cosine kernel (Cho & Saul,
        "Kernel methods for deep learning", 2009).
        """
        is_paper = -highest_around(-explained, 1) > _PAPER
        sides, lags = residuals.shape, range(-_LAG_PX, _LAG_PX + 1)
        centre, found = (_LAG_PX, _LAG_PX), np.zeros((len(lags), len(lags)))
        found[centre] = noise**2
        if is_paper.sum() < _FEWEST or not residuals[is_paper].any():
            return cls(found)
        values = np.where(is_paper, residuals, 0).astype(np.float64)
        if not is_clipped:
            values -= np.where(is_paper, values[is_paper].mean(), 0)
        for down in range(_LAG_PX + 1):
            for across in lags:
                pairs = [
                    (
                        slice(max(0, -lag), side - max(0, lag)),
                        slice(max(0, lag), side + min(0, lag)),
                    )
                    for lag, side in zip((down, across), sides, strict=True)
                ]
                one, other = zip(*pairs, strict=True)
                count = max(1, (is_paper[one] & is_paper[other]).sum())
                mean = (values[one] * values[other]).sum() / count
                found[_LAG_PX + down, _LAG_PX + across] = mean
                found[_LAG_PX - down, _LAG_PX - across] = mean
        if is_clipped:
            angles = np.linspace(0, math.pi, 256)
            kernel = (np.sin(angles) + (math.pi - angles) * np.cos(angles)) / math.pi
            shares = found / found[centre]
            found = 2 * found[centre] * np.cos(np.interp(-shares, -kernel, angles))
        return cls(found * max(1, noise**2 / found[centre]))

    def unclipped(
        self, normalised: np.ndarray, values: np.ndarray, explained: np.ndarray
    ) -> np.ndarray:
        """Return an image with the expected values of pixels that are black or white in the file.

        `values` are those of the file, and `normalised` those with ink 0 and paper 1, as in the
        image that contours explain. Otherwise, noise would make light parts darker.
        """
        found, noise = normalised.copy(), math.sqrt(self.autocovariance[_LAG_PX, _LAG_PX])
        for is_end, sign in ((values > _WHITE, 1), (values < _BLACK, -1)):
            end, mean = normalised[is_end], explained[is_end]
            beyond = np.interp(sign * (end - mean) / noise, _DISTANCES, _EXPECTED)
            found[is_end] = sign * np.maximum(sign * (mean + sign * noise * beyond), sign * end)
        return found

    def without_specks(self, drawing: np.ndarray, residuals: np.ndarray) -> np.ndarray:
        """Return a drawing without faint ink that may be noise.

        `residuals` are what the contours of the drawing do not explain. The ink of each connected
        part that is not close to strong ink is weighted as in the matched filter of the part.
        """
        is_strong = (drawing < _STRONG).astype(np.float32)
        is_faint = (drawing < _INK) & (highest_around(is_strong, 1) == 0)
        if not is_faint.any():
            return drawing
        parts = _connected(is_faint)[is_faint]
        ink = np.where(is_faint, 1 - drawing, 0)
        height, width = ink.shape
        padded, spread = np.pad(ink, _LAG_PX), np.zeros_like(ink)
        for (down, across), covariance in np.ndenumerate(self.autocovariance):
            spread += covariance * padded[down : down + height, across : across + width]
        seen, variance, attached = (
            np.bincount(parts, pixels[is_faint], ink.size)
            for pixels in (
                ink * (1 - drawing - residuals),
                ink * spread,
                highest_around(is_strong, 2),
            )
        )
        least = np.where(attached > 0, _CONTINUING, _SIGNIFICANT)
        is_speck = (seen < least * np.sqrt(np.maximum(variance, 0)))[parts]
        found = drawing.copy()
        found[is_faint] = np.where(is_speck, 1, drawing[is_faint])
        return found


def _connected(mask: np.ndarray) -> np.ndarray:
    """Return the same number for all pixels of each part that is connected along sides or corners.

    Each pixel takes the least number of its neighbours, and then of that pixel, until none changes.
    """
    numbers = np.arange(mask.size).reshape(mask.shape)
    pairs = [
        (numbers[one][is_pair], numbers[other][is_pair])
        for one, other in _NEIGHBOURS
        if (is_pair := mask[one] & mask[other]).any()
    ]
    found = numbers.ravel()
    while True:
        before = found.copy()
        for one, other in pairs:
            least = np.minimum(found[one], found[other])
            np.minimum.at(found, before[one], least)
            np.minimum.at(found, before[other], least)
        while not np.array_equal(found, found[found]):
            found = found[found]
        if np.array_equal(found, before):
            return found.reshape(mask.shape)
