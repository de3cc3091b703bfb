"""The pixels of a coded image, and its symbols for the range coder, by compiled kernels."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from neuralfield.coding import kernels
from neuralfield.coding.coded_image import VALUE_BITS, CodedImage, Layer
from neuralfield.coding.context import SURROUNDINGS, coarse_features
from neuralfield.coding.laplace import PROBABILITY_BITS, TABLES

NO_INTERVALS = np.empty((0, 2), np.int32)
_NO_BYTES = np.empty(0, np.uint8)


def pixels_of(image: CodedImage) -> np.ndarray:
    """Compute the levels of a coded image: uint8, shape (height, width, channels)."""
    planes: list[np.ndarray] = []
    for k in range(len(image.latents) - 1, -1, -1):
        latents, filters = image.latents[k], image.filters
        planes = [
            latents.astype(np.int16) << VALUE_BITS,
            *(
                kernels.enlarge(plane, filters.weights[k], filters.weight_bits, *latents.shape)
                for plane in planes
            ),
        ]
    values = np.stack([*planes, *_surroundings(image.latents[0])])
    layers = (*_arrays(image.hidden), *_arrays(image.output))
    levels = kernels.synthesise(values.reshape(len(values), -1), *layers)
    return levels.reshape(image.height, image.width, image.channels)


def _surroundings(latents: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the means of the latents around each; see `SURROUNDINGS`."""
    rows, columns = latents.shape
    padded = np.pad(latents.astype(np.int16), 2, "edge")
    for offsets in SURROUNDINGS:
        means = np.zeros(latents.shape, np.int16)
        for y, x in offsets:
            means += padded[2 + y : 2 + y + rows, 2 + x : 2 + x + columns]
        means *= (1 << VALUE_BITS) // len(offsets)
        yield means


def latent_bits(image: CodedImage) -> list[float]:
    """Compute the bits that the latents of each grid take in the file, the finest grid first."""
    bits = []
    for k, latents in enumerate(image.latents):
        intervals = np.empty((latents.size, 2), np.int32)
        if largest := largest_of(latents):
            code_grid(k, image.latents, image.rate, largest, Symbols(intervals=intervals))
            frequencies = np.bincount(intervals[:, 1])
            used = np.flatnonzero(frequencies)
            bits.append(float(frequencies[used] @ (PROBABILITY_BITS - np.log2(used))))
        else:
            bits.append(0.0)
    return bits


def largest_of(values: np.ndarray) -> int:
    """Return the largest absolute value, 0 if there are no values."""
    return max(int(values.max()), -int(values.min())) if values.size else 0


class Symbols:
    """The symbols of a stream, in order: intervals that are written, or a stream that is read."""

    def __init__(
        self,
        stream: np.ndarray = _NO_BYTES,
        states: ArrayLike = (),
        intervals: np.ndarray = NO_INTERVALS,
    ) -> None:
        self.stream, self.intervals = stream, intervals
        self.states = np.array(states, np.int32)
        self.cursor = np.zeros(3, np.int64)

    def arguments(self) -> Iterator[np.ndarray]:
        """Yield the last arguments of kernels that code values."""
        yield from (TABLES, self.stream, self.states, self.cursor, self.intervals)

    @property
    def is_cut(self) -> bool:
        """Whether the stream ended before its symbols."""
        return bool(self.cursor[kernels.IS_CUT])

    @property
    def is_complete(self) -> bool:
        """Whether a stream was read to its end, where all states are those of an empty stream."""
        is_read = self.cursor[kernels.BYTES] == self.stream.size
        return is_read and not self.is_cut and bool((self.states == kernels.LEAST_STATE).all())


def code_grid(
    k: int, latents: Sequence[np.ndarray], rate: Sequence[Layer], largest: int, symbols: Symbols
) -> None:
    """Read latents of grid k, which are overwritten, or write their intervals.

    Coarser grids must have been read; latents are of at most `largest` in size.
    """
    kernels.code_grid(
        *(latents[k], largest, coarse_features(latents, k)),
        np.concatenate([layer.weights for layer in rate]),
        np.concatenate([layer.shifted_bias.astype(np.int32) for layer in rate]),
        np.array([layer.weight_bits for layer in rate], np.int32),
        *symbols.arguments(),
    )


def _arrays(layer: Layer) -> tuple[np.ndarray, np.ndarray, np.int32]:
    return layer.weights, layer.shifted_bias.astype(np.int32), np.int32(layer.weight_bits)
