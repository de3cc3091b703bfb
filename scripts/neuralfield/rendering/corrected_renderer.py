"""Rendering with a residual: what the network lacks of its training image is enlarged by Lanczos
and added."""

from typing import TYPE_CHECKING

import numpy as np

from neuralfield.system.device import Array, Device, namespace_of, to_host
from neuralfield.tasks.image.image_model import Model

if TYPE_CHECKING:
    from neuralfield.rendering import Renderer

Weights = tuple[Array, Array]
"""Indices and weights of the elements that are summed up for each element of a resampled axis; see
`lanczos_weights`."""

_LOBES = 3
_MOST_SAMPLES = 32
"""Maximum number of samples of a pixel along each axis; the filter is so smooth that its mean needs
no more."""


class CorrectedRenderer:
    """See `neuralfield.rendering.Renderer`; adds the residual of the model to renders of the
    network.

    The mean of the residual over a pixel is taken over all combinations of the columns and the rows
    of the samples, so that each axis is resampled on its own.
    """

    def __init__(self, renderer: "Renderer", model: Model, device: Device) -> None:
        assert model.residual is not None
        self._renderer, self._device, self._channels = renderer, device, model.channels
        self._sides = (model.residual.shape[1], model.residual.shape[0])
        self._residual = device.asarray(model.residual)

    def pixels(
        self, columns: Array, rows: Array, offsets: Array, which: Array | None = None
    ) -> tuple[Array, Array]:
        """Compute means, in which the network's part is clipped to [0, 1], and spreads."""
        values, spreads = self._renderer.pixels(columns, rows, offsets, which)
        across, down = (self._weights(axis, of, offsets) for axis, of in enumerate((columns, rows)))
        added = resampled(self._residual, down, across).reshape(-1, self._channels)
        if which is not None:
            added = added[which]
        return self._device.xp.clip(values, 0, 1) + added.astype(values.dtype), spreads

    def close(self) -> None:
        self._renderer.close()

    def _weights(self, axis: int, centres: Array, offsets: Array) -> Weights:
        """Return `lanczos_weights` of the means over pixels, along one axis."""
        # on the host, because on a GPU a kernel would have to be loaded for each operation
        samples = np.sort(to_host(offsets)[:, axis])
        count = min(len(samples), _MOST_SAMPLES)
        samples = samples[(2 * np.arange(count) + 1) * len(samples) // (2 * count)]
        points = to_host(centres)[:, None] + samples
        length = self._sides[axis]
        indices, weights = lanczos_weights((points * max(self._sides) + length - 1) / 2, length)
        dtype = self._residual.dtype
        return self._device.asarray(indices), self._device.asarray(weights, dtype=dtype)


def lanczos_weights(positions: np.ndarray, length: int) -> Weights:
    """Return the indices of the elements that each mean of points depends on, and their weights,
    both of shape (n, taps).

    `positions`, shape (n, points), are those of the points of each mean, in units of elements, of
    which there are `length`. The weights of each mean add up to 1, also at the ends; points beyond
    an end count as points at the end.
    """
    positions = positions.clip(-0.5, length - 0.5)
    whole = np.floor(positions).astype(np.int64)
    first = whole.min(axis=1) - (_LOBES - 1)
    near = whole[..., None] + np.arange(1 - _LOBES, _LOBES + 1)
    distances = positions[..., None] - near
    found = np.sinc(distances) * np.sinc(distances / _LOBES)
    found[(near < 0) | (near >= length)] = 0
    found /= found.sum(axis=2, keepdims=True) * positions.shape[1]
    taps = int((whole.max(axis=1) + _LOBES - first).max()) + 1
    weights = np.zeros((len(positions), taps))
    places = near - first[:, None, None]
    np.add.at(weights, (np.arange(len(positions))[:, None, None], places), found)
    return (first[:, None] + np.arange(taps)).clip(0, length - 1), weights


def resampled(values: Array, down: Weights, across: Weights) -> Array:
    """Resample an image, shape (height, width, channels), along both axes.

    The sums are computed tap by tap, because the bits of a matrix product depend on its size, and
    therefore on bands and threads. On a GPU, all arrays but the indices are float32.
    """
    if namespace_of(values) is not np:
        # imported here, because only jobs on a GPU need it
        from neuralfield.rendering.gpu_resampling import resample_axis

        return resample_axis(resample_axis(values, 0, *down), 1, *across)
    height, width, channels = values.shape
    high = _weighted(values.reshape(height, -1), *down).reshape(-1, width, channels)
    # transposed, so that the rows to add up are contiguous
    wide = _weighted(high.transpose(1, 0, 2).reshape(width, -1), *across)
    return wide.reshape(-1, len(high), channels).transpose(1, 0, 2)


def _weighted(values: Array, indices: Array, weights: Array) -> Array:
    """Compute weighted sums of rows of `values`, shape (rows, n); see `lanczos_weights`."""
    total = values[indices[:, 0]] * weights[:, :1]
    for tap in range(1, weights.shape[1]):
        total += values[indices[:, tap]] * weights[:, tap : tap + 1]
    return total
