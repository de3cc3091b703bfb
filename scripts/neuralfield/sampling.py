"""Which pixels a step looks at, and at which points of them: pure functions of seed and step."""

from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType

from neuralfield.device import Array
from neuralfield.errors import ConfigError
from neuralfield.rng import permutation, philox, uniform

_STREAM_ORDER, _STREAM_JITTER = 0, 1


@dataclass(frozen=True)
class Batches:
    """Random batches: slices of an endless row of random orders of all pixels.

    Attributes
    ----------
    xp : module
    pixel_count : int
        Pixels of the picture.
    batch_pixels : int
        Pixels a step; 0 or `pixel_count` and more: all of them, in order.
    random_seed : int
    """

    xp: ModuleType
    pixel_count: int
    batch_pixels: int
    random_seed: int

    @property
    def size(self) -> int:
        """Pixels in each batch."""
        return min(self.batch_pixels or self.pixel_count, self.pixel_count)

    def indices(self, step: int) -> Array:
        """Pixels of the batch of a step (the first is 0); int64, shape (size,)."""
        if self.size == self.pixel_count:
            return _range(self.xp, self.pixel_count)
        start = step * self.size
        epoch, offset = divmod(start, self.pixel_count)
        part = self._order(epoch)[offset : offset + self.size]
        if part.size == self.size:
            return part
        rest = self._order(epoch + 1)[: self.size - part.size]
        return self.xp.concatenate([part, rest])

    def _order(self, epoch: int) -> Array:
        return _order(self.xp, self.pixel_count, self.random_seed, epoch)


@lru_cache(maxsize=2)
def _order(xp: ModuleType, size: int, seed: int, epoch: int) -> Array:
    return permutation(xp, size, seed, _STREAM_ORDER, epoch)


@lru_cache(maxsize=2)
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
        cells = xp.stack([xp.broadcast_to(xp.arange(count), keys.shape), keys.argsort(axis=-1)], -1)
        offsets = ((cells + uniform(words)) / count - 0.5) * self.pixel_side
        return (centres[:, None, None, :] + offsets).astype(centres.dtype).reshape(-1, 2)
