"""Which samples a step looks at, and at which points of them: pure functions of seed and step."""

from dataclasses import dataclass
from functools import lru_cache, reduce
from types import ModuleType

import numpy as np

from neuralfield.system.device import Array
from neuralfield.system.errors import ConfigError
from neuralfield.system.random_streams import (
    STREAM_DENSITY,
    STREAM_JITTER,
    STREAM_ORDER,
    permuted,
    philox,
    uniform,
)

_MOST_POINTS = 64


@dataclass(frozen=True)
class Batches:
    """Random batches of samples: of a picture's pixels, or rows of a table.

    Attributes
    ----------
    xp : module
    sample_count : int
        All there are.
    batch_samples : int
        Samples a step; 0 or `sample_count` and more: all of them, in order.
    random_seed : int
    cumulative_density : array of float64, shape (sample_count,), or None
        How often each sample is looked at, added up to 1 (see `detail_density`). None: slices of an
        endless row of random orders, so that each sample comes once in every epoch.
    """

    xp: ModuleType
    sample_count: int
    batch_samples: int
    random_seed: int
    cumulative_density: Array | None = None

    @property
    def size(self) -> int:
        """Samples in each batch."""
        return min(self.batch_samples or self.sample_count, self.sample_count)

    @property
    def is_everything(self) -> bool:
        """Whether every batch is all samples."""
        return self.size == self.sample_count

    @property
    def is_weighted(self) -> bool:
        """Whether samples are looked at unequally often."""
        return self.cumulative_density is not None and not self.is_everything

    def indices(self, step: int) -> Array:
        """Samples of the batch of a step (the first is 0); int64, shape (size,)."""
        if self.is_everything:
            return _range(self.xp, self.sample_count)
        if self.cumulative_density is not None:
            return self._systematic_sample(self.cumulative_density, step)
        start = step * self.size
        epoch, offset = divmod(start, self.sample_count)
        places = offset + _range(self.xp, self.size)
        part = self._at(places[: self.sample_count - offset], epoch)
        if part.size == self.size:
            return part
        rest = self._at(places[part.size :] - self.sample_count, epoch + 1)
        return self.xp.concatenate([part, rest])

    def weights(self, samples: Array) -> Array | None:
        """What makes a mean over a batch estimate the mean over all samples; None: all alike."""
        cumulative = self.cumulative_density
        if cumulative is None or not self.is_weighted:
            return None
        before = self.xp.where(samples > 0, cumulative[samples - 1], 0)
        return 1 / (self.sample_count * (cumulative[samples] - before))

    def _at(self, places: Array, epoch: int) -> Array:
        return permuted(self.xp, places, self.sample_count, self.random_seed, (epoch, STREAM_ORDER))

    def _systematic_sample(self, cumulative: Array, step: int) -> Array:
        """One draw from each of `size` equal parts of the density: even over the picture too."""
        part = _range(self.xp, self.size)
        draw = uniform(philox(self.xp, (part, 0, step, STREAM_DENSITY), self.random_seed)[0])
        found = self.xp.searchsorted(cumulative, (part + draw) / self.size, side="right")
        return self.xp.minimum(found, self.sample_count - 1)


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


@lru_cache(maxsize=4)
def _range(xp: ModuleType, size: int) -> Array:
    return xp.arange(size)


@dataclass(frozen=True)
class Footprint:
    """Points spread over each pixel's square, to estimate a field's mean over it.

    A pixel of a reduced picture is a mean over its square, and points drawn anew in every step
    teach edges finer than the pixels. They come in two independent groups, so that a loss can
    multiply the errors of two estimates: see `neuralfield.nn.losses.squared_error_of_means`. Each
    group is a Latin hypercube: one point in every column and every row of a grid over the square.

    Attributes
    ----------
    points : int
        Points a pixel; the first group has one more where they are odd.
    pixel_side : float
        Side of a pixel in coordinates: 2 / longer side.
    random_seed : int
    """

    points: int
    pixel_side: float
    random_seed: int

    groups = 2

    def __post_init__(self) -> None:
        if not self.groups <= self.points <= _MOST_POINTS:
            expected = f"a whole number from {self.groups} to {_MOST_POINTS}"
            raise ConfigError("training.footprint_points", self.points, expected)

    @property
    def group_sizes(self) -> tuple[int, int]:
        """Points of each group."""
        return (self.points + 1) // 2, self.points // 2

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
        counters = (self.group_sizes[0] + 1) // 2  # each gives four words: two points
        index = xp.arange(self.groups * counters)
        words = philox(xp, (pixels[:, None], index[None, :], step, STREAM_JITTER), self.random_seed)
        words = xp.stack(words, axis=-1).reshape(len(pixels), self.groups, 2 * counters, 2)
        offsets = xp.concatenate(
            [
                _latin_hypercube(xp, words[:, group, :count]) * self.pixel_side
                for group, count in enumerate(self.group_sizes)
            ],
            axis=1,
        )
        return (centres[:, None, :] + offsets).astype(centres.dtype).reshape(-1, 2)


def _latin_hypercube(xp: ModuleType, words: Array) -> Array:
    """Points of a square, one in every row and column of a grid over it.

    Parameters
    ----------
    words : array of uint32, shape (n, points, 2)

    Returns
    -------
    array of float64, shape (n, points, 2), in [-0.5, 0.5)
    """
    count = words.shape[1]
    # `uniform` leaves the lowest 8 bits of each word, which are as random: they order the rows
    keys = ((words[..., 0] & 255) << 8) | (words[..., 1] & 255)
    columns = xp.broadcast_to(xp.arange(count), keys.shape)
    rows = xp.argsort(keys, axis=-1, kind="stable")
    return (xp.stack([columns, rows], -1) + uniform(words)) / count - 0.5
