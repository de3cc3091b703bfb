"""Rendering with the portable kernels: one sample of every pixel at a time, in bounded memory."""

from pathlib import Path

import numpy as np

from neuralfield.engines.cuda.buffers import NetworkArrays
from neuralfield.engines.cuda.launch import THREADS, Launch
from neuralfield.engines.cuda.portable.layer_forward import LayerForward, whole_blocks
from neuralfield.engines.cuda.source import compile_kernel
from neuralfield.engines.kernel_plan import TILE_ROWS, NetworkPlan
from neuralfield.fields.coordinate_network import CornerBias, Encoding
from neuralfield.rendering.array_renderer import mean_and_spread
from neuralfield.system.device import Array, Device

_CHUNK_ROWS = 1 << 17


class LayerValues:
    """Values of a network at many points."""

    def __init__(
        self,
        device: Device,
        network: NetworkPlan,
        arrays: NetworkArrays,
        precision: str,
    ) -> None:
        self._xp, self._network = device.xp, network
        self._forward = LayerForward(device, network, arrays, precision, trained=False)
        self._activations = self._forward.allocate(_CHUNK_ROWS, keep=False)
        self._inputs = device.xp.zeros((_CHUNK_ROWS, 2), np.float32)
        self.channels = network.layers[-1].fan_out
        is_mixed = self._forward.is_mixed
        constants = {"CHANNELS": self.channels, "MIXED": is_mixed, **network.constants()}
        path = Path(__file__).with_name("layer_values.cu")
        self._output = compile_kernel(path, "output_values", constants)
        self._grid_inputs = self._forward.kernels(0).get_function("grid_inputs")

    def points(self, inputs: Array) -> Array:
        """Return values, not clipped, at inputs of shape (n, 2): x and y; u and v for corners."""
        values = self._xp.empty((len(inputs), self.channels), np.float32)
        inputs = self._xp.ascontiguousarray(inputs, np.float32)
        self._prepare()
        for start in range(0, len(inputs), _CHUNK_ROWS):
            self._compute(inputs[start : start + _CHUNK_ROWS], values[start : start + _CHUNK_ROWS])
        return values

    def grid(self, columns: Array, rows: Array) -> Array:
        """Return values at all points of a grid, row by row, shape (n_y * n_x, channels)."""
        columns = self._xp.ascontiguousarray(columns, np.float32)
        rows = self._xp.ascontiguousarray(rows, np.float32)
        total = len(columns) * len(rows)
        values = self._xp.empty((total, self.channels), np.float32)
        self._prepare()
        for start in range(0, total, _CHUNK_ROWS):
            count = min(_CHUNK_ROWS, total - start)
            position = (np.int32(len(columns)), np.int64(start), np.int32(count))
            arguments = (columns, rows, *position, self._inputs)
            Launch(self._grid_inputs, (-(-count // THREADS),), arguments)()
            self._compute(self._inputs[:count], values[start : start + count])
        return values

    def _prepare(self) -> None:
        if self._forward.prepare is not None:
            self._forward.prepare()

    def _compute(self, inputs: Array, values: Array) -> None:
        rows, last = whole_blocks(len(inputs)), len(self._network.layers) - 1
        for launch in self._forward.launches(inputs, rows, self._activations):
            launch()
        arguments = (
            *(self._activations.values[last], np.int32(self._forward.widths[last])),
            self._forward.parameter(f"layers.{last}.weight"),
            self._forward.parameter(f"layers.{last}.bias"),
            *(np.int32(self._network.layers[last].fan_in), np.int32(len(inputs)), values),
        )
        Launch(self._output, (rows // TILE_ROWS,), arguments)()


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
