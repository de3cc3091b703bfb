"""Passes over networks of complex numbers: those over real ones, of the real network that does the
same. See `kernels/complex_layers.cu`."""

from dataclasses import replace
from typing import Any

import numpy as np

from neuralfield.device import Array, Device
from neuralfield.engines.buffers import Buffers, PartialGradient, Pass
from neuralfield.engines.launch import Launch
from neuralfield.kernels.complex_layers import ComplexPart
from neuralfield.kernels.plan import BatchPlan, NetworkPlan
from neuralfield.kernels.source import compile_module

_GRID_WIDTH = 128
_ALIGNED = 4
"""Gradients begin at multiples of so many numbers, which the update reads at a time."""

_PART = np.dtype(
    [
        *((name, np.uint64) for name in ("numbers", "tensor")),
        *((name, np.int32) for name in ("size", "columns", "row_step", "column_step")),
        *(("first", np.int32, (2,)), ("sign", np.float32, (2,))),
        *((name, np.int32) for name in ("parts", "part_stride")),
    ],
    align=True,
)
"""The struct ComplexPart of complex_layers.cu."""


def make_pass(
    pass_type: Any,
    device: Device,
    network: NetworkPlan,
    batch: BatchPlan,
    buffers: Buffers,
    precision: str,
) -> Pass:
    """A pass of that type, over complex numbers where the network has them."""
    if network.complex_parts:
        return ComplexPass(pass_type, device, network, batch, buffers, precision)
    return pass_type(device, network, batch, buffers, precision)


class ComplexPass:
    """Forward, loss and backward for one batch; see `neuralfield.engines.buffers.Pass`.

    Parameters
    ----------
    pass_type : type of Pass
        Over real numbers.
    device : Device
    network : NetworkPlan
        With complex parts.
    batch : BatchPlan
    buffers : Buffers
    precision : {"mixed", "float32"}
    """

    def __init__(
        self,
        pass_type: Any,
        device: Device,
        network: NetworkPlan,
        batch: BatchPlan,
        buffers: Buffers,
        precision: str,
    ) -> None:
        xp, shapes = device.xp, network.tensor_shapes
        sizes = [rows * columns for rows, columns in shapes.values()]
        starts = np.cumsum([0, *sizes]).tolist()
        offsets = dict(zip(shapes, starts, strict=False))
        parameters = xp.zeros(starts[-1], np.float32)
        real_buffers = replace(buffers, parameters=parameters, offsets=offsets)
        self._pass: Pass = pass_type(device, network, batch, real_buffers, precision)
        self.name, self.loss_partials = self._pass.name, self._pass.loss_partials
        partials = dict(zip(shapes, self._pass.partial_gradients(), strict=True))

        parts = network.complex_parts
        ends = np.cumsum([-(-p.rows * p.columns // _ALIGNED) * _ALIGNED for p in parts]).tolist()
        sums = xp.zeros(ends[-1], np.float32)
        self._gradients = []
        to_real, to_complex = np.zeros((2, len(parts)), _PART)
        for index, (part, start) in enumerate(zip(parts, [0, *ends[:-1]], strict=True)):
            own, partial = sums[start:], partials[part.tensor]
            _place(to_real[index], part, shapes[part.tensor][1])
            to_real[index]["numbers"] = _address(buffers.parameters, buffers.offsets[part.name])
            to_real[index]["tensor"] = _address(parameters, offsets[part.tensor])
            _place(to_complex[index], part, partial.row_stride)
            to_complex[index]["numbers"] = own.data.ptr
            to_complex[index]["tensor"] = _address(partial.array, partial.offset)
            to_complex[index]["parts"] = partial.parts
            to_complex[index]["part_stride"] = partial.part_stride
            size = part.rows * part.columns
            row_stride = part.columns if part.tensor.endswith(".weight") else size
            self._gradients.append(PartialGradient(own, 1, size, row_stride, 0, partial.scale))
        module, grid = compile_module("complex_layers.cu", {}), (_GRID_WIDTH, len(parts))
        self._make_real, self._make_complex = (
            Launch(module.get_function(name), grid, (device.asarray(table.view(np.uint8)),))
            for name, table in (
                ("make_real_parameters", to_real),
                ("make_complex_gradients", to_complex),
            )
        )
        self._own_bytes = parameters.nbytes + sums.nbytes

    @property
    def memory_bytes(self) -> int:
        """What it has allocated."""
        return self._pass.memory_bytes + self._own_bytes

    def partial_gradients(self) -> list[PartialGradient]:
        """One for each parameter tensor, in order."""
        return self._gradients

    def prepare(self) -> None:
        """Nothing: each `launch` begins with the parameters as they are."""

    def launch(self) -> None:
        """Put the pass on the current stream."""
        self._make_real()
        self._pass.prepare()
        self._pass.launch()
        self._make_complex()


def _place(line: Any, part: ComplexPart, stride: int) -> None:
    """Where the numbers stand in a tensor whose rows are so far apart."""
    line["size"], line["columns"] = part.rows * part.columns, part.columns
    line["row_step"] = part.row_step * stride + part.across
    line["column_step"] = part.column_step
    for index, place in enumerate(part.places):
        line["first"][index] = place.row * stride + place.column
        line["sign"][index] = place.sign


def _address(array: Array, offset: int) -> int:
    """Of one of an array's 32-bit numbers."""
    return array.data.ptr + 4 * offset
