"""Passes over networks of complex numbers: those over real ones, of the real network that does the
same. See `complex_layers.cu`."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from neuralfield.engines.complex_layers import ComplexTensor
from neuralfield.engines.cuda.buffers import Buffers, PartialGradient, Pass
from neuralfield.engines.cuda.dependent_launch import DependentLaunch
from neuralfield.engines.cuda.launch import THREADS
from neuralfield.engines.cuda.source import compile_module
from neuralfield.engines.plan import BatchPlan, NetworkPlan
from neuralfield.system.device import Array, Device

_ALIGNED_NUMBERS = 4
"""Gradients begin at multiples of so many numbers, which the update reads at a time."""

_SUMMED_NUMBERS = 32
"""Gradients of so many complex numbers are summed by a block."""

_WORK = np.dtype(
    [
        *((name, np.uint64) for name in ("real", "imaginary", "tensor", "forward", "backward")),
        *((name, np.int32) for name in ("first", "size", "columns", "row_step", "column_step")),
        *((name, np.int32) for name in ("row_stride", "parts", "part_stride")),
        ("copy_factor", np.float32),
    ],
    align=True,
)
"""The struct Work of complex_layers.cu."""


def make_pass(
    pass_type: Any,
    device: Device,
    network: NetworkPlan,
    batch: BatchPlan,
    buffers: Buffers,
    precision: str,
) -> Pass:
    """A pass of that type, over complex numbers where the network has them."""
    if network.complex_tensors:
        return ComplexPass(pass_type, device, network, batch, buffers, precision)
    return pass_type(device, network, batch, buffers, precision)


class ComplexPass:
    """Forward, loss and backward for one batch; see `neuralfield.engines.cuda.buffers.Pass`.

    Parameters
    ----------
    pass_type : type of Pass
        Over real numbers.
    device : Device
    network : NetworkPlan
        With complex tensors.
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
        xp, tensors = device.xp, network.complex_tensors
        offsets, count = _starts({t.name: t.size * t.row_step * t.column_step for t in tensors}, 1)
        parameters = xp.zeros(count, np.float32)
        real_buffers = replace(buffers, parameters=parameters, offsets=offsets)
        self._pass: Pass = pass_type(device, network, batch, real_buffers, precision)
        self.name, self.loss_partials = self._pass.name, self._pass.loss_partials
        partials = dict(zip(network.parameter_names, self._pass.partial_gradients(), strict=True))

        sizes = {name: n for tensor in tensors for name, n in tensor.parameter_sizes.items()}
        starts, count = _starts(sizes, _ALIGNED_NUMBERS)
        sums = xp.zeros(count, np.float32)
        self._gradients = []
        parameter_works, gradient_works = [], []
        for tensor in tensors:
            partial = partials[tensor.name]
            work = _work(tensor, buffers.parameters, buffers.offsets)
            work["tensor"] = _address(parameters, offsets[tensor.name])
            work["row_stride"] = tensor.column_step * tensor.columns
            if partial.copy:
                work["forward"], work["backward"] = partial.copy.addresses
                work["copy_factor"] = partial.copy.factor
            parameter_works.append(_shared_out(work, THREADS))
            work = _work(tensor, sums, starts)
            work["tensor"] = _address(partial.array, partial.offset)
            for name in ("row_stride", "parts", "part_stride"):
                work[name] = getattr(partial, name)
            gradient_works.append(_shared_out(work, _SUMMED_NUMBERS))
            for name, size in tensor.parameter_sizes.items():
                row = size if tensor.rows == 1 else tensor.columns
                own = sums[starts[name] :]
                self._gradients.append(PartialGradient(own, 1, size, row, 0, partial.scale))
        module = compile_module(Path(__file__).with_name("complex_layers.cu"), {})
        self._make_real, self._make_complex = (
            _launch(device, module.get_function(name), np.concatenate(works))
            for name, works in (
                ("make_real_parameters", parameter_works),
                ("make_complex_gradients", gradient_works),
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
        self._pass.launch()
        self._make_complex()


def _starts(sizes: Mapping[str, int], multiple: int) -> tuple[dict[str, int], int]:
    """Where arrays of these sizes begin in one, at multiples of a number, and where it ends."""
    ends = np.cumsum([-(-size // multiple) * multiple for size in sizes.values()]).tolist()
    return dict(zip(sizes, [0, *ends[:-1]], strict=True)), ends[-1]


def _work(tensor: ComplexTensor, numbers: Array, starts: Mapping[str, int]) -> Any:
    """For all of a tensor, whose parameters lie in `numbers`."""
    work = np.zeros((), _WORK)
    work["real"] = _address(numbers, starts[tensor.real])
    if tensor.imaginary is not None:
        start = starts[tensor.imaginary] + tensor.first_imaginary
        work["imaginary"] = _address(numbers, start)
    for name in ("size", "columns", "row_step", "column_step"):
        work[name] = getattr(tensor, name)
    return work


def _shared_out(work: Any, numbers: int) -> np.ndarray:
    """The work of blocks that have so many numbers each."""
    firsts = np.arange(0, work["size"], numbers)
    works = np.repeat(work, len(firsts))
    works["first"] = firsts
    return works


def _launch(device: Device, kernel: Any, works: np.ndarray) -> DependentLaunch:
    on_card = device.asarray(works.view(np.uint8))
    return DependentLaunch(device, kernel, len(works), THREADS, [on_card])


def _address(array: Array, offset: int) -> int:
    """Of one of an array's 32-bit numbers."""
    return array.data.ptr + 4 * offset
