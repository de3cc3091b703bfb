"""Plans of networks and of batches: the plain numbers that kernels are compiled for."""

from dataclasses import dataclass, replace
from typing import Any

from neuralfield.engines.complex_layers import ComplexTensor, complex_layer, real_layer
from neuralfield.fields import CoordinateNetwork
from neuralfield.fields.coordinate_network import OUTPUTS
from neuralfield.fields.hashgrid import HashEncoding, Level
from neuralfield.fields.wire import ComplexLinear
from neuralfield.nn.blocks import Blocks
from neuralfield.nn.layers import (
    ACTIVATIONS_WITH_KEPT_DERIVATIVES as ACTIVATIONS_WITH_KEPT_DERIVATIVES,
)
from neuralfield.nn.layers import KERNEL_ACTIVATIONS as ACTIVATIONS
from neuralfield.nn.layers import Layer, Nonlinearity
from neuralfield.nn.losses import LOSSES
from neuralfield.nn.schedules import SCHEDULES as SCHEDULES
from neuralfield.tasks.image.image_objective import ImageObjective

TILE_ROWS = 64
"""Rows of the tiles that a batch is divided into. A tile has all points of its pixels."""

ENCODINGS = ("identity", "corners", "fourier", "hashgrid", "chebyshev")
"""Names of the encodings that kernels have code for; they identify each by its index, as they do
activations, outputs, losses and schedules."""

MIXED_GRADIENT_SCALE = 1024.0
"""Factor on gradients of the loss while they are stored as fp16, which keeps small gradients above
fp16's smallest number. It is a power of two, so that the multiplication is exact."""

_MOST_FREQUENCIES = 4
"""Maximum ratio of a wavelet's frequency to its scale in 16 bits. The wavelet's largest value is
then e ** (4 ** 2 / 4), because for negative imaginary parts it grows until its Gaussian factor
makes it decay."""


class NotCovered(Exception):
    """The reason why kernels cannot serve a network or a training; the tape serves all."""


def no_kernels_for(part: str) -> NotCovered:
    """Make the exception for a part of a network or a training without kernels."""
    return NotCovered(f"there are no kernels for {part}")


@dataclass(frozen=True)
class LayerPlan:
    """One layer; `activation` is None for the last one.

    The affine output is multiplied by `frequency` before the activation. It consists of `factors`
    equal parts, one after another, which the activation ``product`` multiplies with each other;
    `factors` is 1 for other activations. The larger `wavelet_scale`, the narrower is a wavelet.
    """

    fan_in: int
    fan_out: int
    has_bias: bool
    activation: str | None
    frequency: float
    factors: int = 1
    wavelet_scale: float = 0.0

    @property
    def values_out(self) -> int:
        """The number of values after the activation."""
        return self.fan_out // self.factors


@dataclass(frozen=True)
class NetworkPlan:
    """A network's shape, as kernels are compiled for it.

    `encoding` names the inputs of the first layer: ``identity`` is the two coordinates, ``corners``
    a one followed by coordinates, ``fourier`` sines and cosines, ``chebyshev`` these followed by
    polynomials, and ``hashgrid`` features of grids; another encoding has the name of its class. For
    a network of complex numbers, everything except `complex_tensors` describes the real network
    that computes the same.
    """

    encoding: str
    layers: tuple[LayerPlan, ...]
    output: str  # linear or sigmoid
    steepness: float
    parameter_names: tuple[str, ...]  # in the order in which parameters lie in memory
    levels: tuple[Level, ...] = ()  # grids of a hash encoding, whose table is the first parameter
    complex_tensors: tuple[ComplexTensor, ...] = ()

    @property
    def has_features(self) -> bool:
        """Whether the first layer's inputs are more than a point's coordinates."""
        return self.encoding in ("fourier", "hashgrid", "chebyshev")

    @property
    def table_shape(self) -> tuple[int, int]:
        """The number of rows of a hash grid's table, and of features per row."""
        last = self.levels[-1]
        return last.start + last.rows, self.layers[0].fan_in // len(self.levels)

    def require_16_bits(self) -> None:
        """Raise `NotCovered` if the network cannot be computed in mixed precision."""
        wavelets = [layer for layer in self.layers[:-1] if layer.wavelet_scale]
        if any(_MOST_FREQUENCIES * w.wavelet_scale < w.frequency for w in wavelets):
            raise no_kernels_for(
                f"wavelets of a frequency above {_MOST_FREQUENCIES} times their scale in 16 bits"
            )

    def constants(self) -> dict[str, Any]:
        return {
            "ENCODING": ENCODINGS.index(self.encoding),
            "OUTPUT_SIGMOID": OUTPUTS.index(self.output),
            "STEEPNESS": float(self.steepness),
            "WAVELET_SCALE": float(self.layers[0].wavelet_scale),
        }


@dataclass(frozen=True)
class BatchPlan:
    """A batch: its number of pixels, the number of points per pixel, and its loss.

    Rows come in tiles of 64. Row r of tile t belongs to slot ``t * tile_pixels + r // points`` (a
    slot is a pixel's place in the batch) and is that pixel's point ``r % points``; it is valid if
    ``r < tile_pixels * points`` and the slot is below `pixels`.
    """

    pixels: int
    points: int  # per pixel, 1 to 64
    footprint: bool  # two groups of points estimate a pixel's mean; the first is the larger
    loss: str  # mse, binary_cross_entropy or huber
    huber_delta: float
    channels: int
    weighted: bool  # whether a slot's squared error has a weight
    image: tuple[int, int] | None = None  # width, height if a batch is the centres of all pixels
    blocks: Blocks | None = None  # set if a batch has one pixel of each block

    @property
    def tile_pixels(self) -> int:
        """The number of slots per tile."""
        return TILE_ROWS // self.points

    @property
    def tiles(self) -> int:
        return -(-self.pixels // self.tile_pixels)

    @property
    def rows(self) -> int:
        """The number of rows of the batch, including invalid ones."""
        return TILE_ROWS * self.tiles

    def constants(self) -> dict[str, Any]:
        return {
            "PIXELS": self.pixels,
            "POINTS": self.points,
            "GROUP_0_POINTS": (self.points + 1) // 2,
            "FOOTPRINT": int(self.footprint),
            "TILE_PIXELS": self.tile_pixels,
            "TILES": self.tiles,
            "LOSS": LOSSES.index(self.loss),
            "HUBER_DELTA": float(self.huber_delta),
            "CHANNELS": self.channels,
            "WEIGHTED": int(self.weighted),
        }


def network_plan(network: CoordinateNetwork) -> NetworkPlan:
    """Make the plan of a network; raise `NotCovered` if kernels do not know one of its parts."""
    encoding, output = network.encoding.name, network.output
    parts = [
        ("encoding", encoding, ENCODINGS),
        *(("activation", activation.name, ACTIVATIONS) for activation in network.activations),
        ("output", output.name, OUTPUTS),
    ]
    for kind, part, known in parts:
        if part not in known:
            raise no_kernels_for(f"the {kind} {part}")
    layers = tuple(map(_layer_plan, network.layers, [*network.activations, None]))
    levels = network.encoding.levels if isinstance(network.encoding, HashEncoding) else ()
    names = tuple(network.parameters)
    plan = NetworkPlan(encoding, layers, output.name, output.steepness, names, levels)
    if not any(isinstance(layer, ComplexLinear) for layer in network.layers):
        return plan
    tensors = _complex_tensors(network)
    names = tuple(tensor.name for tensor in tensors)
    return replace(plan, parameter_names=names, complex_tensors=tuple(tensors))


def batch_plan(objective: ImageObjective) -> BatchPlan:
    """Make the plan of an objective's batches."""
    footprint, batches, shape = objective.footprint, objective.batches, objective.shape
    is_image = footprint is None and batches.is_everything
    return BatchPlan(
        pixels=batches.size,
        points=objective.points,
        footprint=footprint is not None,
        loss=objective.loss,
        huber_delta=objective.huber_delta,
        channels=shape.channels,
        weighted=batches.is_weighted,
        image=(shape.width, shape.height) if is_image else None,
        blocks=batches.blocks,
    )


def _layer_plan(layer: Layer, activation: Nonlinearity | None) -> LayerPlan:
    fan_out, has_bias = layer.fan_out, layer.bias is not None
    if activation is None:
        return LayerPlan(layer.fan_in, fan_out, has_bias, None, 1.0)
    if activation.wavelet_scale and not isinstance(layer, ComplexLinear):
        fan_out *= 2  # the wavelet of a real number is complex
    numbers = float(activation.frequency), activation.factors, float(activation.wavelet_scale)
    return LayerPlan(layer.fan_in, fan_out, has_bias, activation.name, *numbers)


def _complex_tensors(network: CoordinateNetwork) -> list[ComplexTensor]:
    """List the weights and biases, layer by layer."""
    tensors: list[ComplexTensor] = []
    for index, layer in enumerate(network.layers):
        if isinstance(layer, ComplexLinear):
            fan_in, fan_out = layer.real.shape
            only = layer.real_part_only
            tensors += complex_layer(index, fan_in, fan_out, real_part_only=only)
        else:
            tensors += real_layer(index, layer.fan_in, layer.fan_out)
    return tensors
