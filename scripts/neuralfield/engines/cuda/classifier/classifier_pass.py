"""The pass of classifiers: forward, loss and backward of a batch of images, layer by layer."""

from itertools import pairwise
from typing import Any

from neuralfield.engines.cuda.buffers import PartialGradient, Pass
from neuralfield.engines.cuda.classifier.classifier_plan import ClassifierPlan
from neuralfield.engines.cuda.classifier.sampling import ImageSampling
from neuralfield.engines.cuda.convolution import convolution_plan
from neuralfield.engines.cuda.convolution.convolution_layers import ConvolutionLayers
from neuralfield.engines.cuda.convolution.convolution_plan import SHARED_LIMIT_BYTES
from neuralfield.engines.cuda.launch import Launch, gpu_limits
from neuralfield.engines.cuda.source import compile_kernel
from neuralfield.system.device import Array, Device

_HEAD_THREADS = 512
_HEAD_IMAGES = (4, 2, 1)
_HEAD_OWN_BYTES = 64
"""Upper bound on the shared memory of the loss, in bytes."""

_GRADIENT_TILE = (32, 64)
_LEAST_SHARE = 32
_DROPOUT_WORDS = 1 << 32


class ClassifierPass(Pass):
    """The forward pass, loss and backward pass of one batch, which the stage `sampling` fills in.

    Each convolution has separate kernels; one kernel computes all linear layers, forward and
    backward, and another the gradients of their parameters. `random_seed` is the seed of dropout,
    and `step` the number of finished steps, on the GPU.
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
        layers = ConvolutionLayers(
            device, plan.convolutions, plan.batch, parameters, sampling.inputs
        )
        self._convolutions = layers
        self._allocated += layers.arrays
        offset = sum(shape.parameters for shape in plan.convolutions)
        head = self._head(parameters[offset:], random_seed, step)
        self._launches += [*layers.forward, *head, *layers.backward]

    def partial_gradients(self) -> list[PartialGradient]:
        found = [*self._convolutions.partial_gradients]
        offsets = self._plan.part_offsets
        for layer, (into, out) in enumerate(pairwise(self._plan.sizes)):
            parts = (self._dense_parts, len(self._dense_parts), offsets[-1], out)
            for offset in (0, into * out):  # biases are stored after the weights
                found.append(PartialGradient(*parts, offsets[layer] + offset, 1.0))
        return found

    def _head(self, parameters: Array, random_seed: int, step: Array) -> list[Launch]:
        """Make the launches of the linear layers, which come between the forward and the backward
        launches of the convolutions."""
        plan, batch, sizes = self._plan, self._plan.batch, self._plan.sizes
        flat, flat_gradients = self._convolutions.values, self._convolutions.gradients
        if flat_gradients is None:
            flat_gradients = self._zeros(flat.shape)
        images = next(
            p for p in _HEAD_IMAGES if p == 1 or _head_bytes(plan, p) <= self._shared_limit_bytes
        )
        blocks = -(-batch // images)
        self.loss_partials = self._zeros((blocks, 2), "float64")
        hidden = self._zeros(max(1, batch * sum(sizes[1:-1])))
        gradients = self._zeros(batch * sum(sizes[1:]))
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
            "classifier/dense_head.cu",
            "dense_head",
            constants | head_constants(plan, images, random_seed),
            shared_bytes=shared_bytes,
        )
        arguments = (
            *(step, self._sampling.samples, self._sampling.labels, flat, parameters),
            *(hidden, gradients, flat_gradients, self.loss_partials),
        )
        launches = [Launch(head, (blocks,), arguments, _HEAD_THREADS, shared_bytes)]
        constants |= {"SHARE": share}
        gradient = compile_kernel("classifier/dense_gradient.cu", "dense_gradient", constants)
        arguments = (flat, hidden, gradients, self._dense_parts)
        return [*launches, Launch(gradient, (tiles, shares), arguments)]


def head_constants(plan: ClassifierPlan, images: int, random_seed: int) -> dict[str, Any]:
    """Return the constants of the kernel `dense_head`, except the sizes of its layers."""
    return {
        "IMAGES": images,
        "HAS_DROPOUT": int(plan.dropout > 0),
        "THRESHOLD": f"{min(round(plan.dropout * _DROPOUT_WORDS), _DROPOUT_WORDS - 1)}u",
        "KEPT_FACTOR": 1 / (1 - plan.dropout),
        "SEED": f"{random_seed}ull",
        "THREADS": _HEAD_THREADS,
    }


def unsupported_reason(plan: ClassifierPlan) -> str | None:
    """Return the reason why the pass does not cover a classifier, or None."""
    for shape in plan.convolutions:
        reason = convolution_plan.unsupported_reason(shape)
        if reason is not None:
            return reason
    if _head_bytes(plan, 1) > SHARED_LIMIT_BYTES:
        return f"linear layers of {sum(plan.sizes):,} values for an image, all together"
    return None


def activation_bytes(plan: ClassifierPlan) -> int:
    """Count the bytes that a batch needs, except for parts of gradients."""
    values = plan.pixels + sum(10 * shape.values_out for shape in plan.convolutions) // 4
    return 4 * plan.batch * (values + 2 * sum(plan.sizes))


def _head_bytes(plan: ClassifierPlan, images: int) -> int:
    """Count the bytes of shared memory of the kernel `dense_head`."""
    numbers = sum(plan.sizes) + 2 * max(plan.sizes) + _HEAD_THREADS
    return 4 * images * numbers + _HEAD_OWN_BYTES
