"""Passes over networks of complex numbers, by a pass over an equivalent network of real numbers.

See `complex_layers.cu`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from neuralfield.engines.complex_layers import ComplexTensor
from neuralfield.engines.cuda.buffers import PartialGradient, Pass, PassArguments
from neuralfield.engines.cuda.dependent_launch import DependentLaunch
from neuralfield.engines.cuda.launch import THREADS
from neuralfield.engines.cuda.source import compile_module
from neuralfield.system.device import Array, Device

_ALIGNED_NUMBERS = 4
"""Alignment of gradients: the number of values that the update reads at a time."""

_SUMMED_NUMBERS = 32
"""Number of complex numbers whose gradients one thread block sums."""

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


def make_pass(pass_type: Callable[[PassArguments], Pass], given: PassArguments) -> Pass:
    """Make a pass of a type, within a `ComplexPass` if the network has complex numbers."""
    return ComplexPass(pass_type, given) if given.network.complex_tensors else pass_type(given)


class ComplexPass(Pass):
    """A pass over the real network that is equivalent to one with complex tensors, with a kernel
    before it that converts the parameters, and one after it that converts the gradients back.
    """

    def __init__(self, pass_type: Callable[[PassArguments], Pass], given: PassArguments) -> None:
        super().__init__(given.device)
        network, buffers, tensors = given.network, given.buffers, given.network.complex_tensors
        offsets, count = _starts({t.name: t.size * t.row_step * t.column_step for t in tensors}, 1)
        parameters = self._zeros(count)
        real_buffers = replace(buffers, parameters=parameters, offsets=offsets)
        real_pass = pass_type(replace(given, buffers=real_buffers))
        self._allocated += real_pass._allocated
        self.name, self.variant = real_pass.name, real_pass.variant
        self.loss_partials = real_pass.loss_partials
        partials = dict(zip(network.parameter_names, real_pass.partial_gradients(), strict=True))

        sizes = {name: n for tensor in tensors for name, n in tensor.parameter_sizes.items()}
        starts, count = _starts(sizes, _ALIGNED_NUMBERS)
        sums = self._zeros(count)
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
        module = compile_module("portable/complex_layers.cu", {})
        make_real, make_complex = (
            _launch(given.device, module.get_function(name), np.concatenate(works))
            for name, works in (
                ("make_real_parameters", parameter_works),
                ("make_complex_gradients", gradient_works),
            )
        )
        self._launches = [make_real, real_pass.launch, make_complex]

    def partial_gradients(self) -> list[PartialGradient]:
        return self._gradients


def _starts(sizes: Mapping[str, int], multiple: int) -> tuple[dict[str, int], int]:
    """Return the starts of arrays of these sizes in a single array, as multiples of `multiple`, and
    the size of that array."""
    ends = np.cumsum([-(-size // multiple) * multiple for size in sizes.values()]).tolist()
    return dict(zip(sizes, [0, *ends[:-1]], strict=True)), ends[-1]


def _work(tensor: ComplexTensor, numbers: Array, starts: Mapping[str, int]) -> Any:
    """Make the struct Work for a whole tensor, whose parameters or gradients are in `numbers`."""
    work = np.zeros((), _WORK)
    work["real"] = _address(numbers, starts[tensor.real])
    if tensor.imaginary is not None:
        start = starts[tensor.imaginary] + tensor.first_imaginary
        work["imaginary"] = _address(numbers, start)
    for name in ("size", "columns", "row_step", "column_step"):
        work[name] = getattr(tensor, name)
    return work


def _shared_out(work: Any, numbers: int) -> np.ndarray:
    """Divide work among thread blocks that process `numbers` complex numbers each."""
    firsts = np.arange(0, work["size"], numbers)
    works = np.repeat(work, len(firsts))
    works["first"] = firsts
    return works


def _launch(device: Device, kernel: Any, works: np.ndarray) -> DependentLaunch:
    on_gpu = device.asarray(works.view(np.uint8))
    return DependentLaunch(device, kernel, len(works), THREADS, [on_gpu])


def _address(array: Array, offset: int) -> int:
    """Return the address of element `offset` of an array of 32-bit numbers."""
    return array.data.ptr + 4 * offset
