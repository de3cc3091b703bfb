"""Random Fourier features before a plain network (Tancik et al., "Fourier features let networks
learn high frequency functions in low dimensional domains", NeurIPS 2020)."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from neuralfield.fields.coordinate_network import CoordinateNetwork, FourierFeatures, Output
from neuralfield.images.image import PictureShape
from neuralfield.nn.layers import ACTIVATIONS, INITIALIZERS, Activation, make_linear, plain_weights
from neuralfield.system.errors import ConfigError
from neuralfield.system.setting_checks import require_positive, require_whole

_INITIALIZERS = INITIALIZERS | {"relu": plain_weights}
"""For relu smaller ones than elsewhere: with He's, what a network starts with, made of many waves,
stands in the way of what it learns."""


@dataclass(frozen=True)
class Fourier:
    """[sin(2 pi B p), cos(2 pi B p)], then layers with one activation.

    Under relu, weights and biases start uniform in [-1, 1] / sqrt(fan_in).

    Attributes
    ----------
    frequencies : int
        Rows of B, drawn once from N(0, scale ** 2).
    scale : float
        Their spread in cycles a unit; the finest pattern of N pixels has N / 4.
    hidden_layers, width : int
    activation : {"relu", "tanh", "sigmoid", "sine"}
    output, steepness
        See `neuralfield.fields.coordinate_network.Output`.
    """

    frequencies: int = 128
    scale: float = 10.0
    hidden_layers: int = 3
    width: int = 128
    activation: str = "relu"
    output: str = "linear"
    steepness: float = 4.0

    def __post_init__(self) -> None:
        require_positive(self, "scale", "steepness")
        require_whole(self, "frequencies", "width", "hidden_layers", at_least=1)
        if self.activation not in ACTIVATIONS:
            expected = f"one of {', '.join(ACTIVATIONS)}"
            raise ConfigError("fields: activation", repr(self.activation), expected)

    @property
    def suggested_learning_rate(self) -> float:
        """Of Adam and Muon."""
        return 3e-3

    def weight_shapes(self, shape: PictureShape) -> list[tuple[int, int]]:
        """Shape of each layer's matrix."""
        return list(
            pairwise((2 * self.frequencies, *[self.width] * self.hidden_layers, shape.channels))
        )

    def build(self, shape: PictureShape, generator: np.random.Generator) -> CoordinateNetwork:
        """A network with fresh weights."""
        encoding = FourierFeatures(generator.normal(0, self.scale, size=(2, self.frequencies)))
        initializer = _INITIALIZERS[self.activation]
        layers = [
            make_linear(fan_in, fan_out, initializer, generator)
            for fan_in, fan_out in self.weight_shapes(shape)
        ]
        activations = [Activation(self.activation)] * self.hidden_layers
        return CoordinateNetwork(encoding, layers, activations, Output(self.output, self.steepness))
