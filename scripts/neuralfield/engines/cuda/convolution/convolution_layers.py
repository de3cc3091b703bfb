"""A sequence of convolutions, forward and backward, with separate kernels for each layer."""

from collections.abc import Sequence
from typing import Any

from neuralfield.engines.cuda.buffers import PartialGradient
from neuralfield.engines.cuda.convolution.convolution_plan import (
    ConvolutionShape,
    KernelPlan,
    kernel_plans,
)
from neuralfield.engines.cuda.launch import Launch, gpu_limits
from neuralfield.engines.cuda.source import compile_module
from neuralfield.system.device import Array, Device


class ConvolutionLayers:
    """The launches of convolutions with these shapes; `images` are the inputs of the first one.

    `parameters` begin with those of the first convolution. `forward` writes `values`; `backward`
    reads the gradients of `values` from `gradients` (None without convolutions), and writes
    `partial_gradients`, those of each layer's weights and biases. `arrays` are all that have been
    allocated. With `is_spread`, layers are divided into blocks for at least three quarters of the
    GPU's multiprocessors if possible, however small the batch is.
    """

    def __init__(
        self,
        device: Device,
        shapes: Sequence[ConvolutionShape],
        batch: int,
        parameters: Array,
        images: Array,
        *,
        is_spread: bool = False,
    ) -> None:
        self._device, self._batch, self._is_spread = device, batch, is_spread
        self._multiprocessors, _ = gpu_limits(device)
        self.partial_gradients: list[PartialGradient] = []
        self.arrays: list[Array] = []
        self.forward: list[Launch] = []
        self.backward: list[Launch] = []
        self.values, self.gradients = images, None  # of the last convolution so far
        for shape in shapes:
            self._add(shape, parameters)
            parameters = parameters[shape.parameters :]

    def _add(self, shape: ConvolutionShape, parameters: Array) -> None:
        """Add a convolution, whose parameters are the first of `parameters`."""
        least_blocks = self._multiprocessors * 3 // 4 if self._is_spread else 1
        plans = kernel_plans(shape, self._batch, self._multiprocessors, least_blocks)
        assert plans is not None  # else there is an `unsupported_reason`
        constants = shape.constants(self._batch)
        for plan in plans.values():
            constants |= plan.constants
        module = compile_module("convolution/convolution.cu", constants)
        # after pooling and relu; see `convolution.cu`
        values = self._zeros((self._batch, shape.values_out))
        winners = self._zeros((self._batch, shape.values_out), "uint16")
        gradients = self._zeros((self._batch, shape.values_out))
        parts = self._zeros((plans["GRADIENT"].grid[0], shape.parameters))
        columns, stride = shape.channels_out, shape.parameters
        arguments = (self.values, parameters, parameters[stride - columns :], values, winners)
        self.forward.append(_launch(module, "convolve", plans["FORWARD"], arguments))
        arguments = (self.values, gradients, winners, parts)
        own = [_launch(module, "gradient", plans["GRADIENT"], arguments)]
        if self.gradients is not None:
            arguments = (gradients, winners, parameters, self.gradients)
            own.append(_launch(module, "gradients_back", plans["BACKWARD"], arguments))
        self.backward = own + self.backward
        self.partial_gradients += [
            PartialGradient(parts, len(parts), stride, columns, offset, 1.0)
            for offset in (0, stride - columns)  # biases are stored after the weights
        ]
        self.values, self.gradients = values, gradients

    def _zeros(self, shape: tuple[int, int], dtype: str = "float32") -> Array:
        self.arrays.append(self._device.xp.zeros(shape, dtype=dtype))
        return self.arrays[-1]


def _launch(module: Any, name: str, plan: KernelPlan, arguments: tuple[Any, ...]) -> Launch:
    kernel = module.get_function(name, plan.shared_bytes)
    return Launch(kernel, plan.grid, arguments, plan.threads, plan.shared_bytes)
