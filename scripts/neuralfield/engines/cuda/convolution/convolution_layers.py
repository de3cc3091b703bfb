"""A sequence of convolutions, forward and backward, with separate kernels for each layer."""

from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class _Stage:
    """A convolution's arrays."""

    shape: ConvolutionShape
    # shape (batch, values out); after pooling and relu; see `convolution.cu`
    values: Array
    winners: Array
    gradients: Array
    parts: Array  # float32, shape (parts, parameters); the parts of the gradient


class ConvolutionLayers:
    """The launches of convolutions with these shapes; `images` are the inputs of the first one.

    `parameters` begin with those of the first convolution. `forward` writes `values`; `backward`
    reads the gradients of `values` from `gradients` (None without convolutions). `arrays` are all
    that have been allocated. With `is_spread`, layers are divided into blocks for at least three quarters of the GPU's multiprocessors if
    possible, however small the batch is.
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
        self._stages: list[_Stage] = []
        self.arrays: list[Array] = []
        self.forward: list[Launch] = []
        self.backward: list[Launch] = []
        self.values, self.gradients = images, None
        for shape in shapes:
            self._add(shape, parameters)
            parameters = parameters[shape.parameters :]

    def partial_gradients(self) -> list[PartialGradient]:
        """Return the partial gradients of each layer's weights and biases."""
        found = []
        for stage in self._stages:
            columns, stride = stage.shape.channels_out, stage.shape.parameters
            for offset in (0, stride - columns):  # biases are stored after the weights
                parts = (stage.parts, len(stage.parts), stride, columns)
                found.append(PartialGradient(*parts, offset, 1.0))
        return found

    def _add(self, shape: ConvolutionShape, parameters: Array) -> None:
        """Add a convolution, whose parameters are the first of `parameters`."""
        least_blocks = self._multiprocessors * 3 // 4 if self._is_spread else 1
        plans = kernel_plans(shape, self._batch, self._multiprocessors, least_blocks)
        assert plans is not None  # else there is an `unsupported_reason`
        constants = shape.constants(self._batch)
        for plan in plans.values():
            constants |= plan.constants
        module = compile_module("convolution/convolution.cu", constants)
        stage = _Stage(
            shape,
            values=self._zeros((self._batch, shape.values_out)),
            winners=self._zeros((self._batch, shape.values_out), "uint16"),
            gradients=self._zeros((self._batch, shape.values_out)),
            parts=self._zeros((plans["GRADIENT"].grid[0], shape.parameters)),
        )
        images, bias = self.values, parameters[shape.parameters - shape.channels_out :]
        arguments = (images, parameters, bias, stage.values, stage.winners)
        self.forward.append(_launch(module, "convolve", plans["FORWARD"], arguments))
        arguments = (images, stage.gradients, stage.winners, stage.parts)
        own = [_launch(module, "gradient", plans["GRADIENT"], arguments)]
        if self._stages:
            arguments = (stage.gradients, stage.winners, parameters, self._stages[-1].gradients)
            own.append(_launch(module, "gradients_back", plans["BACKWARD"], arguments))
        self.backward = own + self.backward
        self._stages.append(stage)
        self.values, self.gradients = stage.values, stage.gradients

    def _zeros(self, shape: tuple[int, int], dtype: str = "float32") -> Array:
        self.arrays.append(self._device.xp.zeros(shape, dtype=dtype))
        return self.arrays[-1]


def _launch(module: Any, name: str, plan: KernelPlan, arguments: tuple[Any, ...]) -> Launch:
    kernel = module.get_function(name, plan.shared_bytes)
    return Launch(kernel, plan.grid, arguments, plan.threads, plan.shared_bytes)
