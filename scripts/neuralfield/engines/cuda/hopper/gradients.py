"""Gradients as the fused passes leave them: a part from each block, for the update to add up."""

from collections.abc import Callable
from typing import Any

from neuralfield.engines.cuda.buffers import PartialGradient
from neuralfield.engines.cuda.hopper.padded_network import HopperNetwork
from neuralfield.engines.plan import MIXED_GRADIENT_SCALE, BatchPlan, LayerPlan
from neuralfield.system.device import Array

Zeros = Callable[[tuple[int, ...], Any], Array]
"""Allocates an array of a shape and a dtype."""


def vector_count(shape: HopperNetwork) -> int:
    """Sums over points that are no matrix: of each output's weights, of the coordinates' and of
    their bias."""
    return shape.network.layers[-1].fan_out + (0 if shape.network.has_features else 3)


class VectorGradients:
    """Gradients that need no matrix product: of the last layer, and of one of two coordinates.

    Parameters
    ----------
    shape : HopperNetwork
    blocks : int
        Each leaves a part.
    zeros : callable

    Attributes
    ----------
    vectors : array of float32, shape (blocks, vectors, widest)
        The first ``channels * widest`` numbers are ``[widest][channels]``.
    output_bias : array of float32, shape (blocks, channels)
    """

    def __init__(self, shape: HopperNetwork, blocks: int, zeros: Zeros) -> None:
        self._shape, self._blocks = shape, blocks
        self._channels = shape.network.layers[-1].fan_out
        self.vectors = zeros((blocks, vector_count(shape), shape.widest), "float32")
        self.output_bias = zeros((blocks, self._channels), "float32")

    def of(self, index: int, scale: float) -> list[PartialGradient]:
        """Of a layer's weight and bias."""
        widest, blocks, channels = self._shape.widest, self._blocks, self._channels
        stride = vector_count(self._shape) * widest
        if index == len(self._shape.hidden):
            return [
                PartialGradient(self.vectors, blocks, stride, channels, 0, scale),
                PartialGradient(self.output_bias, blocks, channels, channels, 0, scale),
            ]
        ones = channels * widest
        rows = ones if self._shape.network.encoding == "corners" else ones + widest
        return [
            PartialGradient(self.vectors, blocks, stride, widest, rows, scale),
            PartialGradient(self.vectors, blocks, stride, widest, ones, scale),
        ]


def partial_gradients(
    shape: HopperNetwork,
    batch: BatchPlan,
    vectors: VectorGradients,
    matrix_gradient: Callable[[int, LayerPlan, float], list[PartialGradient]],
) -> list[PartialGradient]:
    """One for each layer's parameter tensors, in order.

    Parameters
    ----------
    shape : HopperNetwork
    batch : BatchPlan
    vectors : VectorGradients
    matrix_gradient : callable
        Told a layer's index, the layer and the factor on what blocks have left, gives those of its
        weight and bias.
    """
    unit = 1 / (MIXED_GRADIENT_SCALE * batch.pixels * batch.channels)
    partials = []
    for index, layer in enumerate(shape.network.layers):
        scale = unit * layer.frequency
        has_matrix = index in shape.matrices
        pair = matrix_gradient(index, layer, scale) if has_matrix else vectors.of(index, scale)
        partials += pair if layer.has_bias else pair[:1]
    return partials
