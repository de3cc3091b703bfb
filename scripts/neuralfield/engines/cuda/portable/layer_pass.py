"""The portable pass: a network layer by layer, on any GPU with compute capability 7.5 or more."""

from collections.abc import Callable
from typing import Any

import numpy as np

from neuralfield.engines.cuda.buffers import PartialGradient, Pass, PassArguments
from neuralfield.engines.cuda.launch import Launch, processor_count
from neuralfield.engines.cuda.portable.grid_gradient import (
    TableGradient,
    make_table_gradient,
    table_partial,
)
from neuralfield.engines.cuda.portable.layer_forward import (
    BLOCK_ROWS,
    LayerForward,
    require_layer_kernels,
    tile_side,
    whole_blocks,
)
from neuralfield.engines.cuda.source import compile_kernel
from neuralfield.engines.kernel_plan import (
    ACTIVATIONS,
    MIXED_GRADIENT_SCALE,
    TILE_ROWS,
    BatchPlan,
    NetworkPlan,
    no_kernels_for,
)
from neuralfield.system.device import Array

_MOST_ROWS = 1 << 21
_ROWS_PER_SPLIT = 512
"""Minimum number of rows for which a partial sum gets an array of its own."""


class LayerPass(Pass):
    """Forward pass, loss and backward pass of one batch, in chunks of rows that fit in memory."""

    name = variant = "layers"
    memory_budget_bytes = 2 << 30
    """Maximum number of bytes of activations. The result depends on it, because gradients are added
    up chunk by chunk."""

    def __init__(self, given: PassArguments) -> None:
        super().__init__(given.device)
        network, batch, buffers = given.network, given.batch, given.buffers
        self._network, self._batch, self._buffers = network, batch, buffers
        self._forward = LayerForward(given.device, network, buffers, given.precision, trained=True)
        self._allocated += self._forward.arrays
        self._gradient_scale = MIXED_GRADIENT_SCALE if self._forward.is_mixed else 1.0
        self._processors = processor_count(given.device)
        self._partials: dict[str, PartialGradient] = {}
        widths, widest = self._forward.widths, max(self._forward.columns, default=0)
        dtype = self._forward.dtype
        gradient_bytes = 2 * widest * np.dtype(dtype).itemsize
        self._table: TableGradient | None = None
        if network.encoding == "hashgrid":
            layout = self._forward.feature_layout
            self._table = make_table_gradient(given.device, network, batch, layout)
            self._allocated += self._table.arrays
            if not self._table.keeps_all:
                gradient_bytes += widths[0] * np.dtype(dtype).itemsize
        row_bytes = self._forward.row_bytes(keep=True) + gradient_bytes
        fitting = min(self.memory_budget_bytes // row_bytes, _MOST_ROWS) // BLOCK_ROWS * BLOCK_ROWS
        self._chunk_rows = min(max(fitting, BLOCK_ROWS), whole_blocks(batch.rows))
        self._activations = self._forward.allocate(self._chunk_rows, keep=True)
        self._allocated += self._activations.arrays
        self._gradients = [self._zeros(self._chunk_rows * widest, dtype) for _ in range(2)]
        self._feature_gradients = self._zeros((self._kept_derivative_rows(), widths[0]), dtype)
        self._allocate_partials()
        self._output_kernel = self._compile_output()
        if self._forward.prepare is not None:
            self._launches.append(self._forward.prepare)
        for start in range(0, batch.rows, self._chunk_rows):
            self._launches += self._chunk(start)

    @staticmethod
    def require_kernels(
        network: NetworkPlan, batch: BatchPlan, precision: str, compute_capability: int
    ) -> None:
        """Raise `NotCovered` if this pass cannot be used; a compute capability of 75 is 7.5."""
        if precision == "mixed":
            network.require_16_bits()
        require_layer_kernels(network, compute_capability)
        if not 1 <= batch.channels <= 4:
            raise no_kernels_for(f"{batch.channels} channels")

    def partial_gradients(self) -> list[PartialGradient]:
        return [self._partials[name] for name in self._network.parameter_names]

    def _kept_derivative_rows(self) -> int:
        """Count the rows whose features' gradients are in memory at the same time."""
        if self._table is None:
            return 0
        return whole_blocks(self._batch.rows) if self._table.keeps_all else self._chunk_rows

    def _allocate_partials(self) -> None:
        forward, channels = self._forward, self._batch.channels
        tiles = self._chunk_rows // TILE_ROWS
        last, width = len(self._network.layers) - 1, forward.widths[-1]
        self._row_blocks = min(tiles, 2 * self._processors)
        self.loss_partials = self._zeros((self._row_blocks, 2), np.float64)
        size = (width + 1) * channels
        output = self._zeros((self._row_blocks, size))
        self._add_partials(f"layers.{last}.weight", output, size, channels, 0)
        self._add_partials(f"layers.{last}.bias", output, size, channels, width * channels)
        self._splits: dict[int, int] = {}
        for index in forward.matrices:
            inner, outer = forward.widths[index], forward.columns[index]
            side = tile_side(inner, outer)
            blocks = inner // side * (outer // side)
            filling = -(-2 * self._processors // blocks)
            splits = max(1, min(filling, self._chunk_rows // _ROWS_PER_SPLIT))
            self._splits[index] = splits
            weight = self._zeros((splits, inner, outer))
            bias = self._zeros((splits * (inner // side), outer))
            # for a product, a row of weights consists of one row for each factor
            row = forward.widths[index + 1]
            self._add_partials(f"layers.{index}.weight", weight, inner * outer, row, 0)
            self._add_partials(f"layers.{index}.bias", bias, outer, row, 0)
        if 0 not in forward.matrices and last:
            outer = forward.widths[1]
            sums = self._zeros((self._row_blocks, 3, outer))
            # the plain sums of gradients are those of the bias, and of weights whose input is one
            skipped = 0 if self._network.encoding == "corners" else outer
            self._add_partials("layers.0.weight", sums, 3 * outer, outer, skipped)
            self._add_partials("layers.0.bias", sums, 3 * outer, outer, 0)
        if self._table:
            scale = 1 / (self._batch.pixels * channels * self._gradient_scale)
            partial = table_partial(self._network, self._table.array, scale)
            self._partials["encoding.table"] = partial

    def _add_partials(
        self, name: str, array: Array, part_stride: int, row_stride: int, offset: int
    ) -> None:
        layer = self._network.layers[int(name.split(".")[1])]
        count = self._batch.pixels * self._batch.channels
        scale = layer.frequency / (count * self._gradient_scale)
        columns = layer.values_out if layer.factors > 1 else None
        self._partials[name] = PartialGradient(
            array, len(array), part_stride, row_stride, offset, scale, columns=columns
        )

    def _compile_output(self) -> Any:
        hidden = self._network.layers[:-1]
        before = hidden[-1].activation if hidden else None
        factors = hidden[-1].factors if hidden else 1
        constants = {
            **self._network.constants(),
            **self._batch.constants(),
            "ACTIVATION": ACTIVATIONS.index(before or ACTIVATIONS[0]),
            "FACTORS": factors,
            "MIXED": self._forward.is_mixed,
            "GRADIENT_SCALE": self._gradient_scale,
        }
        return compile_kernel("portable/output_layer.cu", "output_layer", constants)

    def _chunk(self, start: int) -> list[Callable[[], None]]:
        inputs = self._buffers.inputs[start:]
        rows = min(self._chunk_rows, whole_blocks(self._batch.rows - start))
        accumulate = np.int32(start > 0)
        launches: list[Callable[[], None]] = []
        launches += self._forward.launches(inputs, rows, self._activations)
        launches.append(self._output(start, rows, accumulate))
        gradient, before = self._gradients
        for index in reversed(range(len(self._network.layers) - 1)):
            if index in self._splits:
                launches.append(self._weight_gradient(index, rows, gradient, accumulate))
            else:
                launches.append(self._first_gradient(inputs, rows, gradient, accumulate))
            if index:
                launches.append(self._backward(index, rows, gradient, before))
                gradient, before = before, gradient
        if self._table:
            gradients = self._feature_gradients
            own = gradients[start:] if self._table.keeps_all else gradients
            launches.append(self._backward_features(rows, gradient, own))
            is_last = start + rows >= self._batch.rows
            given = self._buffers.inputs if self._table.keeps_all else inputs
            launches += self._table.launches(gradients, given, rows, is_last=is_last)
        return launches

    def _output(self, start: int, rows: int, accumulate: np.int32) -> Launch:
        last = len(self._network.layers) - 1
        arguments = (
            *(self._activations.values[last], self._activations.kept(last)),
            np.int32(self._forward.widths[last]),
            self._forward.parameter(f"layers.{last}.weight"),
            self._forward.parameter(f"layers.{last}.bias"),
            np.int32(self._network.layers[last].fan_in),
            *(self._buffers.targets, self._buffers.weights),
            *(np.int32(start // TILE_ROWS), np.int32(rows // TILE_ROWS)),
            self._gradients[0] if last else None,
            *(self._partials[f"layers.{last}.weight"].array, self.loss_partials, accumulate),
        )
        return Launch(self._output_kernel, (self._row_blocks,), arguments)

    def _weight_gradient(
        self, index: int, rows: int, gradient: Array, accumulate: np.int32
    ) -> Launch:
        inner, outer = self._forward.widths[index], self._forward.columns[index]
        side = tile_side(inner, outer)
        arguments = (
            *(self._activations.values[index], np.int32(inner), gradient, np.int32(outer)),
            np.int32(rows // TILE_ROWS),
            self._partials[f"layers.{index}.weight"].array,
            self._partials[f"layers.{index}.bias"].array,
            accumulate,
        )
        grid = (inner // side, outer // side, self._splits[index])
        return Launch(self._kernel(index, f"gradient_{side}"), grid, arguments)

    def _first_gradient(
        self, inputs: Array, rows: int, gradient: Array, accumulate: np.int32
    ) -> Launch:
        arguments = (
            *(inputs, np.int32(min(rows, len(inputs))), np.int32(rows // TILE_ROWS)),
            *(gradient, np.int32(self._forward.widths[1])),
            *(self._partials["layers.0.weight"].array, accumulate),
        )
        return Launch(self._kernel(0, "first_gradient"), (self._row_blocks,), arguments)

    def _backward(self, index: int, rows: int, gradient: Array, before: Array) -> Launch:
        inner, outer = self._forward.widths[index], self._forward.columns[index]
        side = tile_side(inner)
        arguments = (
            *(gradient, np.int32(outer), self._forward.transposed[index]),
            *(self._activations.kept(index), self._activations.values[index]),
            *(before, np.int32(inner)),
        )
        grid = (inner // side, rows // BLOCK_ROWS)
        return Launch(self._kernel(index - 1, f"backward_{side}"), grid, arguments)

    def _backward_features(self, rows: int, gradient: Array, before: Array) -> Launch:
        inner, outer = self._forward.widths[0], self._forward.columns[0]
        weight = self._forward.transposed[0]
        arguments = (gradient, np.int32(outer), weight, before, np.int32(inner))
        grid = (inner // 64, rows // BLOCK_ROWS)
        return Launch(self._kernel(0, "backward_features"), grid, arguments)

    def _kernel(self, index: int, name: str) -> Any:
        return self._forward.kernels(index).get_function(name)
