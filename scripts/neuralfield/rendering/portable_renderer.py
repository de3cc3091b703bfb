"""Rendering with the portable kernels: a sample of every pixel at a time."""

import numpy as np

from neuralfield.fields.coordinate_network import CornerBias, Encoding
from neuralfield.rendering.array_renderer import mean_and_spread
from neuralfield.rendering.layer_values import LayerValues
from neuralfield.system.device import Array, Device


class LayerPixels:
    """See `neuralfield.rendering.Renderer`; `encoding` is that of the network that computes
    `values`.
    """

    def __init__(self, device: Device, values: LayerValues, encoding: Encoding) -> None:
        self._xp, self._values, self._encoding = device.xp, values, encoding

    def pixels(
        self, columns: Array, rows: Array, offsets: Array, which: Array | None = None
    ) -> tuple[Array, Array]:
        def values_at(offset: Array) -> Array:
            x, y = self._inputs(0, columns + offset[0]), self._inputs(1, rows + offset[1])
            if which is None:
                return self._values.grid(x, y)
            inputs = [x[which % len(columns)], y[which // len(columns)]]
            return self._values.points(self._xp.stack(inputs, axis=1))

        return mean_and_spread(values_at, offsets)

    def close(self) -> None:
        """Do nothing: there is only memory to release."""

    def _inputs(self, axis: int, positions: Array) -> Array:
        positions = positions.astype(np.float32)
        if isinstance(self._encoding, CornerBias):
            return self._encoding.along(axis, positions)
        return positions
