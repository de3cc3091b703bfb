"""The samples and points of each step, as pure functions of seed and step."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from types import ModuleType

import numpy as np

from neuralfield.nn.blocks import Blocks
from neuralfield.system.device import Array
from neuralfield.system.random_streams import (
    STREAM_DENSITY,
    STREAM_JITTER,
    STREAM_ORDER,
    permutation,
    philox,
    uniform,
)


@dataclass(frozen=True)
class Batches:
    """Random batches of samples, which are pixels of an image or rows of a table."""

    xp: ModuleType  # ``numpy`` or ``cupy``
    sample_count: int  # number of all samples
    batch_samples: int
    """Number of samples in a step; 0, or at least `sample_count`, means all samples in order."""
    random_seed: int
    cumulative_density: Array | None = None
    """Cumulative sum of the probabilities of samples (see `detail_density`), float64, shape
    (sample_count,). None: all probabilities are equal."""
    image: tuple[int, int] | None = None
    """Width and height, if the samples are the pixels of an image: batches are then spread evenly
    over it, see `blocks`. Otherwise batches are slices of a sequence of random permutations, so
    that each sample occurs once in every epoch."""

    @property
    def size(self) -> int:
        """The number of samples in each batch."""
        return min(self.batch_samples or self.sample_count, self.sample_count)

    @property
    def is_everything(self) -> bool:
        """Whether every batch contains all samples."""
        return self.size == self.sample_count

    @property
    def is_weighted(self) -> bool:
        """Whether samples have different probabilities."""
        return self.cumulative_density is not None and not self.is_everything

    @cached_property
    def blocks(self) -> Blocks | None:
        """Blocks of the image, each with one pixel in every batch; None if they are not used."""
        if self.image is None or self.is_everything or self.is_weighted:
            return None
        return Blocks(self.xp, *self.image, self.size)

    def indices(self, step: int) -> Array:
        """Return the samples of a step, counted from 0; int64, shape (size,)."""
        if self.is_everything:
            return _range(self.xp, self.sample_count)
        if self.cumulative_density is not None:
            return self._systematic_sample(self.cumulative_density, step)
        if self.blocks is not None:
            return self.blocks.pixels(step, self.random_seed)
        epoch, offset = divmod(step * self.size, self.sample_count)
        part = self._order(epoch)[offset : offset + self.size]
        if part.size == self.size:
            return part
        return self.xp.concatenate([part, self._order(epoch + 1)[: self.size - part.size]])

    def weights(self, samples: Array) -> Array | None:
        """Return weights with which a batch's mean estimates the mean of all samples without bias.

        None means that all weights are equal.
        """
        cumulative = self.cumulative_density
        if cumulative is None or not self.is_weighted:
            return None
        before = self.xp.where(samples > 0, cumulative[samples - 1], 0)
        return 1 / (self.sample_count * (cumulative[samples] - before))

    @cached_property
    def _order(self) -> Callable[[int], Array]:
        """A function that returns the order of all samples in an epoch, and keeps the last two."""

        @lru_cache(maxsize=2)
        def order(epoch: int) -> Array:
            found = permutation(self.sample_count, self.random_seed, (epoch, STREAM_ORDER))
            return self.xp.asarray(found)

        return order

    def _systematic_sample(self, cumulative: Array, step: int) -> Array:
        """Sample once from each of `size` parts of equal probability, for an even distribution."""
        part = _range(self.xp, self.size)
        sample = uniform(philox(self.xp, (part, 0, step, STREAM_DENSITY), self.random_seed)[0])
        found = self.xp.searchsorted(cumulative, (part + sample) / self.size, side="right")
        return self.xp.minimum(found, self.sample_count - 1)


def detail_density(values: np.ndarray, detail_share: float) -> np.ndarray:
    """Return a probability for each pixel that is larger near edges.

    The result is float64, shape (height * width,), with a sum of 1. A share `detail_share` of it is
    proportional to the contrast in the 3 x 3 pixels around each pixel; the rest is uniform.
    """
    height, width, _ = values.shape
    padded = np.pad(values, ((1, 1), (1, 1), (0, 0)), mode="edge")
    around = [padded[y : y + height, x : x + width] for y in range(3) for x in range(3)]
    # reduced one after another, because ufunc.reduce would first copy all nine into one array
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
    """Random points in each pixel's square, which estimate a field's mean over it.

    A pixel of a reduced image is a mean over its square. With new points in every step, a network
    is fitted to edges that are finer than the pixels. The points, 2 to 64, form two independent
    groups, so that a loss can multiply the errors of two estimates: see
    `neuralfield.nn.losses.squared_error_of_means`. Each group is a Latin hypercube: one point in
    every column and every row of a grid over the square.
    """

    points: int  # number of points in a pixel; if odd, the first group has one more
    pixel_side: float  # side of a pixel in coordinates: 2 / longer side
    random_seed: int

    groups = 2

    @property
    def group_sizes(self) -> tuple[int, int]:
        return (self.points + 1) // 2, self.points // 2

    def spread(self, xp: ModuleType, centres: Array, pixels: Array, step: int) -> Array:
        """Return the points of some pixels in a step, pixel by pixel and group by group.

        The result has shape (n * points, 2) and the dtype of `centres`. `centres`, shape (n, 2),
        are in coordinates, and `pixels` are the indices of the pixels. The points depend on these
        indices and not on the batch.
        """
        counters = (self.group_sizes[0] + 1) // 2  # each has four words, for two points
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
    """Return random points in a square, one in every row and column of a grid over it.

    `words` are random uint32; the result is float64 in [-0.5, 0.5). Both have shape (n, points, 2).
    """
    count = words.shape[1]
    # the lowest 8 bits of each word, which `uniform` does not use, order the rows
    keys = ((words[..., 0] & 255) << 8) | (words[..., 1] & 255)
    columns = xp.broadcast_to(xp.arange(count), keys.shape)
    rows = xp.argsort(keys, axis=-1, kind="stable")
    return (xp.stack([columns, rows], -1) + uniform(words)) / count - 0.5
