"""The base class of the fused passes: weights as a stream, and gradients as partial sums."""

from collections.abc import Sequence

import numpy as np

from neuralfield.engines.cuda.buffers import PartialGradient, Pass, PassArguments
from neuralfield.engines.cuda.fused.padded_network import (
    PaddedNetwork,
    WeightStream,
    addresses,
    parameter_offsets,
)
from neuralfield.engines.cuda.fused.wgmma import uses_wgmma
from neuralfield.engines.cuda.launch import compute_capability
from neuralfield.engines.kernel_plan import MIXED_GRADIENT_SCALE, LayerPlan
from neuralfield.system.device import Array


def vector_count(shape: PaddedNetwork) -> int:
    """Count the sums over points that are vectors, not matrices: one for each output and, without
    features, one for each coordinate and one for their bias."""
    return shape.network.layers[-1].fan_out + (0 if shape.network.has_features else 3)


class FusedPass(Pass):
    """A pass in which each block writes a partial sum of every gradient, which the update adds up.

    `backward` says whether the kernel reads transposed weights too. `wgmma` says which back-end
    computes matrix products.
    """

    def __init__(
        self, given: PassArguments, shape: PaddedNetwork, blocks: int, *, backward: bool
    ) -> None:
        super().__init__(given.device)
        self.wgmma = uses_wgmma(compute_capability(given.device))
        self.variant = f"{self.name}, {'wgmma' if self.wgmma else 'mma.sync'}"
        self.network, self.batch, self.blocks = given.network, given.batch, blocks
        self._shape, self._buffers = shape, given.buffers
        self._stream = WeightStream(given.device, shape, given.buffers, backward=backward)
        self._allocated.append(self._stream.array)
        # gradients that need no matrix product: those of the last layer, and those of a first layer
        # of two coordinates; a block's first ``channels * widest`` numbers are [widest][channels]
        self._vectors = self._zeros((blocks, vector_count(shape), shape.widest))
        self._output_bias = self._zeros((blocks, given.batch.channels))
        self._parts_of: dict[int, tuple[Array, Array]] = {}
        """Partial sums of the gradients of weight and bias, for each layer with a matrix."""
        self.loss_partials = self._zeros((blocks, 2), "float64")

    def partial_gradients(self) -> list[PartialGradient]:
        unit = 1 / (MIXED_GRADIENT_SCALE * self.batch.pixels * self.batch.channels)
        partials = []
        for index, layer in enumerate(self.network.layers):
            has_matrix = index in self._shape.matrices
            gradients = self._matrix_gradients if has_matrix else self._vector_gradients
            pair = gradients(index, layer, unit * layer.frequency)
            partials += pair if layer.has_bias else pair[:1]
        return partials

    def prepare(self) -> None:
        """Pack the weights; from then on, the update keeps the packed weights up to date."""
        self._stream.launch()

    def _matrix_gradients(
        self, index: int, layer: LayerPlan, scale: float
    ) -> list[PartialGradient]:
        weight, bias = self._parts_of[index]
        parts, rows, columns = weight.shape
        copy = self._stream.copy_of(index, layer.frequency)
        return [
            PartialGradient(weight, parts, rows * columns, columns, 0, scale, copy),
            PartialGradient(bias, parts, columns, columns, 0, scale),
        ]

    def _vector_gradients(
        self, index: int, layer: LayerPlan, scale: float
    ) -> list[PartialGradient]:
        widest, blocks, channels = self._shape.widest, self.blocks, self.batch.channels
        stride = vector_count(self._shape) * widest
        if layer.activation is None:
            return [
                PartialGradient(self._vectors, blocks, stride, channels, 0, scale),
                PartialGradient(self._output_bias, blocks, channels, channels, 0, scale),
            ]
        ones = channels * widest
        rows = ones if self.network.encoding == "corners" else ones + widest
        return [
            PartialGradient(self._vectors, blocks, stride, widest, rows, scale),
            PartialGradient(self._vectors, blocks, stride, widest, ones, scale),
        ]

    def _arguments_of(self, inner: Sequence[Array | None], last: Sequence[Array] = ()) -> Array:
        """Return the struct Arguments: fields that all kernels have, with a kernel's own fields
        between them (`inner`) and after them (`last`)."""
        buffers = self._buffers
        pointers = [
            *(buffers.inputs, buffers.targets, buffers.weights),
            *(buffers.parameters, buffers.frequencies, *inner),
            *(self._vectors, self._output_bias, self.loss_partials, *last),
        ]
        offsets = np.array(parameter_offsets(self.network, buffers.offsets), np.int32)
        return self._upload(
            np.concatenate([addresses(pointers).view(np.uint8), offsets.view(np.uint8)])
        )
