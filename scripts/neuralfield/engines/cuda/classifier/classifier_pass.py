"""The pass of classifiers: forward, loss and backward of a batch of images, layer by layer."""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from neuralfield.engines.cuda.buffers import PartialGradient, Pass
from neuralfield.engines.cuda.classifier import convolution_plan
from neuralfield.engines.cuda.classifier.convolution_plan import (
    SHARED_LIMIT_BYTES,
    ConvolutionShape,
    KernelPlan,
    backward_plan,
    forward_plan,
    gradient_plan,
)
from neuralfield.engines.cuda.classifier.plan import ClassifierPlan
from neuralfield.engines.cuda.classifier.sampling import ImageSampling
from neuralfield.engines.cuda.launch import Launch, gpu_limits
from neuralfield.engines.cuda.source import compile_kernel, compile_module
from neuralfield.system.device import Array, Device

_HEAD_THREADS = 512
_HEAD_IMAGES = (4, 2, 1)
_HEAD_OWN_BYTES = 64
"""At least the shared memory of the loss."""

_GRADIENT_TILE = (32, 64)
_LEAST_SHARE = 32
_DROPOUT_WORDS = 1 << 32


@dataclass(frozen=True)
class _Stage:
    """A convolution's arrays."""

    shape: ConvolutionShape
    # shape (batch, values out); after pooling and relu; see `convolution.cu`
    values: Array
    winners: Array
    gradients: Array
    parts: Array  # float32, shape (parts, parameters); the parts of the gradient


class ClassifierPass(Pass):
    """Forward, loss and backward for one batch, which the stage `sampling` fills in.

    A kernel for each layer and direction; linear layers are worked on by one, forward and back.
    `random_seed` is that of dropout, and `step` has the steps finished so far, on the GPU.
    """

    name = "classifier"

    def __init__(
        self,
        device: Device,
        plan: ClassifierPlan,
        parameters: Array,
        sampling: ImageSampling,
        random_seed: int,
        step: Array,
    ) -> None:
        super().__init__(device)
        self._plan, self._sampling = plan, sampling
        self._multiprocessors, self._shared_limit_bytes = gpu_limits(device)
        self._stages: list[_Stage] = []
        self._forward: list[Launch] = []
        self._backward: list[Launch] = []
        offset, values = 0, sampling.inputs
        for shape in plan.convolutions:
            offset, values = self._add_convolution(shape, parameters, offset, values)
        self._add_head(parameters[offset:], values, random_seed, step)
        self._launches += [*self._forward, *self._backward]

    def partial_gradients(self) -> list[PartialGradient]:
        found = []
        for stage in self._stages:
            columns, stride = stage.shape.channels_out, stage.shape.parameters
            weights = PartialGradient(stage.parts, len(stage.parts), stride, columns, 0, 1.0)
            found += [weights, _bias_after(weights, stride - columns)]
        offsets = self._plan.part_offsets
        for layer, (into, out) in enumerate(pairwise(self._plan.sizes)):
            parts, start = self._dense_parts, offsets[layer]
            weights = PartialGradient(parts, len(parts), offsets[-1], out, start, 1.0)
            found += [weights, _bias_after(weights, start + into * out)]
        return found

    def _add_convolution(
        self, shape: ConvolutionShape, parameters: Array, offset: int, images: Array
    ) -> tuple[int, Array]:
        """Add one convolution; return where the next one's parameters begin, and values."""
        batch = self._plan.batch
        forward, backward, gradient = (
            _existing(plan(shape, batch, self._multiprocessors))
            for plan in (forward_plan, backward_plan, gradient_plan)
        )
        constants = shape.constants(batch)
        for plan in (forward, backward, gradient):
            constants |= plan.constants
        module = compile_module(Path(__file__).with_name("convolution.cu"), constants)
        stage = _Stage(
            shape,
            values=self._zeros((batch, shape.values_out)),
            winners=self._zeros((batch, shape.values_out), "uint16"),
            gradients=self._zeros((batch, shape.values_out)),
            parts=self._zeros((gradient.grid[0], shape.parameters)),
        )
        weights, bias_at = parameters[offset:], offset + shape.parameters - shape.channels_out
        bias = parameters[bias_at:]
        arguments = (images, weights, bias, stage.values, stage.winners)
        self._forward.append(self._launch_of(module, "convolve", forward, arguments))
        arguments = (images, stage.gradients, stage.winners, stage.parts)
        own = [self._launch_of(module, "gradient", gradient, arguments)]
        if self._stages:
            arguments = (stage.gradients, stage.winners, weights, self._stages[-1].gradients)
            own.append(self._launch_of(module, "gradients_back", backward, arguments))
        self._backward = own + self._backward
        self._stages.append(stage)
        return offset + shape.parameters, stage.values

    def _launch_of(
        self, module: Any, name: str, plan: KernelPlan, arguments: tuple[Any, ...]
    ) -> Launch:
        kernel = module.get_function(name)
        kernel.max_dynamic_shared_size_bytes = plan.shared_bytes
        return Launch(kernel, plan.grid, arguments, plan.threads, plan.shared_bytes)

    def _add_head(self, parameters: Array, flat: Array, random_seed: int, step: Array) -> None:
        """Add the linear layers; they come between forward and backward."""
        plan, batch, sizes = self._plan, self._plan.batch, self._plan.sizes
        images = next(
            p for p in _HEAD_IMAGES if p == 1 or _head_bytes(plan, p) <= self._shared_limit_bytes
        )
        blocks = -(-batch // images)
        self.loss_partials = self._zeros((blocks, 2), "float64")
        hidden = self._zeros(max(1, batch * sum(sizes[1:-1])))
        gradients = self._zeros(batch * sum(sizes[1:]))
        flat_gradients = self._stages[-1].gradients if self._stages else self._zeros(flat.shape)
        tiles = sum(
            -(-(into + 1) // _GRADIENT_TILE[0]) * -(-out // _GRADIENT_TILE[1])
            for into, out in pairwise(sizes)
        )
        shares = min(-(-2 * self._multiprocessors // tiles), -(-batch // _LEAST_SHARE))
        share = -(-batch // shares)
        shares = -(-batch // share)
        self._dense_parts = self._zeros((shares, plan.part_offsets[-1]))

        constants = plan.head_constants()
        shared_bytes = _head_bytes(plan, images)
        head = compile_kernel(
            Path(__file__).with_name("dense_head.cu"),
            "dense_head",
            constants | head_constants(plan, images, random_seed),
            shared_bytes=shared_bytes,
        )
        arguments = (
            *(step, self._sampling.samples, self._sampling.labels, flat, parameters),
            *(hidden, gradients, flat_gradients, self.loss_partials),
        )
        self._forward.append(Launch(head, (blocks,), arguments, _HEAD_THREADS, shared_bytes))
        path = Path(__file__).with_name("dense_gradient.cu")
        gradient = compile_kernel(path, "dense_gradient", constants | {"SHARE": share})
        arguments = (flat, hidden, gradients, self._dense_parts)
        self._forward.append(Launch(gradient, (tiles, shares), arguments))


def head_constants(plan: ClassifierPlan, images: int, random_seed: int) -> dict[str, Any]:
    """Return the constants of the kernel `dense_head`, beside the sizes of its layers."""
    return {
        "IMAGES": images,
        "HAS_DROPOUT": int(plan.dropout > 0),
        "THRESHOLD": f"{min(round(plan.dropout * _DROPOUT_WORDS), _DROPOUT_WORDS - 1)}u",
        "KEPT_FACTOR": 1 / (1 - plan.dropout),
        "SEED": f"{random_seed}ull",
        "THREADS": _HEAD_THREADS,
    }


def unsupported_reason(plan: ClassifierPlan) -> str | None:
    """Say why the pass cannot work on a classifier, or return None."""
    for shape in plan.convolutions:
        reason = convolution_plan.unsupported_reason(shape)
        if reason is not None:
            return reason
    if _head_bytes(plan, 1) > SHARED_LIMIT_BYTES:
        return f"linear layers of {sum(plan.sizes):,} values for an image, all together"
    return None


def activation_bytes(plan: ClassifierPlan) -> int:
    """Count the bytes that a batch needs, but for parts of gradients."""
    values = plan.pixels + sum(10 * shape.values_out for shape in plan.convolutions) // 4
    return 4 * plan.batch * (values + 2 * sum(plan.sizes))


def _head_bytes(plan: ClassifierPlan, images: int) -> int:
    """Count bytes of shared memory of the kernel `dense_head`."""
    numbers = sum(plan.sizes) + 2 * max(plan.sizes) + _HEAD_THREADS
    return 4 * images * numbers + _HEAD_OWN_BYTES


def _bias_after(weights: PartialGradient, offset: int) -> PartialGradient:
    """Return the gradient of the biases, which lie behind the weights."""
    return PartialGradient(
        weights.array, weights.parts, weights.part_stride, weights.row_stride, offset, weights.scale
    )


def _existing(plan: KernelPlan | None) -> KernelPlan:
    assert plan is not None  # else there is an `unsupported_reason`
    return plan
