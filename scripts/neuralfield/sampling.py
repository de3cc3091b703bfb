"""Which pixels a step looks at, and at which points of them: pure functions of seed and step."""

from dataclasses import dataclass
from functools import lru_cache, reduce
from types import ModuleType

import numpy as np

from neuralfield.device import Array
from neuralfield.errors import ConfigError
from neuralfield.rng import permutation, philox, uniform

_STREAM_ORDER, _STREAM_JITTER, _STREAM_DENSITY = 0, 1, 2


@dataclass(frozen=True)
class Batches:
    """Random batches of pixels.

    Attributes
    ----------
    xp : module
    pixel_count : int
        Pixels of the picture.
    batch_pixels : int
        Pixels a step; 0 or `pixel_count` and more: all of them, in order.
    random_seed : int
    cumulative_density : array of float64, shape (pixel_count,), or None
        How often each pixel is looked at, added up to 1 (see `detail_density`). None: slices of an
        endless row of random orders, so that each pixel comes once in every epoch.
    """

    xp: ModuleType
    pixel_count: int
    batch_pixels: int
    random_seed: int
    cumulative_density: Array | None = None

    @property
    def size(self) -> int:
        """Pixels in each batch."""
        return min(self.batch_pixels or self.pixel_count, self.pixel_count)

    def indices(self, step: int) -> Array:
        """Pixels of the batch of a step (the first is 0); int64, shape (size,)."""
        if self.size == self.pixel_count:
            return _range(self.xp, self.pixel_count)
        if self.cumulative_density is not None:
            return self._systematic_sample(self.cumulative_density, step)
        start = step * self.size
        epoch, offset = divmod(start, self.pixel_count)
        part = self._order(epoch)[offset : offset + self.size]
        if part.size == self.size:
            return part
        rest = self._order(epoch + 1)[: self.size - part.size]
        return self.xp.concatenate([part, rest])

    def weights(self, pixels: Array) -> Array | None:
        """What makes a mean over a batch estimate the mean over the picture; None: all alike."""
        if self.cumulative_density is None or self.size == self.pixel_count:
            return None
        cumulative = self.cumulative_density
        before = self.xp.where(pixels > 0, cumulative[pixels - 1], 0)
        return 1 / (self.pixel_count * (cumulative[pixels] - before))

    def _order(self, epoch: int) -> Array:
        return _order(self.xp, self.pixel_count, self.random_seed, epoch)

    def _systematic_sample(self, cumulative: Array, step: int) -> Array:
        """One draw from each of `size` equal parts of the density: even over the picture too."""
        part = _range(self.xp, self.size)
        draw = uniform(philox(self.xp, (part, 0, step, _STREAM_DENSITY), self.random_seed)[0])
        found = self.xp.searchsorted(cumulative, (part + draw) / self.size, side="right")
        return self.xp.minimum(found, self.pixel_count - 1)


def detail_density(values: np.ndarray, detail_share: float) -> np.ndarray:
    """How often each pixel should be looked at, when edges matter more than flat parts.

    Parameters
    ----------
    values : ndarray, shape (height, width, channels)
    detail_share : float
        This part follows the contrast of each pixel's 3 x 3 surroundings; the rest is even.

    Returns
    -------
    ndarray of float64, shape (height * width,)
        Adds up to 1.
    """
    height, width, _ = values.shape
    padded = np.pad(values, ((1, 1), (1, 1), (0, 0)), mode="edge")
    around = [padded[y : y + height, x : x + width] for y in range(3) for x in range(3)]
    # one after another: ufunc.reduce would first copy all nine into one array
    contrast = reduce(np.maximum, around) - reduce(np.minimum, around)
    contrast = contrast.mean(axis=2, dtype=np.float64).reshape(-1)
    even = np.full(contrast.size, 1 / contrast.size)
    total = contrast.sum()
    return (1 - detail_share) * even + detail_share * (contrast / total if total else even)


@lru_cache(maxsize=2)
def _order(xp: ModuleType, size: int, seed: int, epoch: int) -> Array:
    return permutation(xp, size, seed, _STREAM_ORDER, epoch)


@lru_cache(maxsize=4)
def _range(xp: ModuleType, size: int) -> Array:
    return xp.arange(size)


@dataclass(frozen=True)
class Footprint:
    """Points spread over each pixel's square, to estimate a field's mean over it.

    A pixel of a reduced picture is a mean over its square, and points drawn anew in every step
    teach edges finer than the pixels. They come in two independent groups, so that a loss can
    multiply the errors of two estimates: see `neuralfield.losses.squared_error_of_means`. Each
    group is a Latin hypercube: one point in every column and every row of a grid over the square.

    Attributes
    ----------
    points : int
        Points a pixel, an even number.
    pixel_side : float
        Side of a pixel in coordinates: 2 / longer side.
    random_seed : int
    """

    points: int
    pixel_side: float
    random_seed: int

    groups = 2

    def __post_init__(self) -> None:
        if self.points < self.groups or self.points % self.groups:
            raise ConfigError("training.footprint_points", self.points, "an even number from 2 up")

    @property
    def group_points(self) -> int:
        """Points of each group."""
        return self.points // self.groups

    def spread(self, xp: ModuleType, centres: Array, pixels: Array, step: int) -> Array:
        """Points of the given pixels in a step.

        Parameters
        ----------
        centres : array, shape (n, 2)
            Pixel centres, in coordinates.
        pixels : array of int64, shape (n,)
            Which pixels these are: a pixel's points do not depend on the batch it is in.
        step : int

        Returns
        -------
        array of the dtype of `centres`, shape (n * points, 2)
            Pixel by pixel, and group by group.
        """
        count = self.group_points
        counters = (count + 1) // 2  # each gives four words: two points
        index = xp.arange(self.groups * counters)
        words = philox(
            xp, (pixels[:, None], index[None, :], step, _STREAM_JITTER), self.random_seed
        )
        words = xp.stack(words, axis=-1).reshape(len(pixels), self.groups, 2 * counters, 2)
        words = words[:, :, :count]
        # `uniform` leaves the lowest 8 bits of each word, which are as random: they order the rows
        keys = ((words[..., 0] & 255) << 8) | (words[..., 1] & 255)
        cells = xp.stack(
            [
                xp.broadcast_to(xp.arange(count), keys.shape),
                xp.argsort(keys, axis=-1, kind="stable"),
            ],
            -1,
        )
        offsets = ((cells + uniform(words)) / count - 0.5) * self.pixel_side
        return (centres[:, None, None, :] + offsets).astype(centres.dtype).reshape(-1, 2)
