"""Random Fourier features before a plain network (Tancik et al., "Fourier features let networks
learn high frequency functions in low dimensional domains", NeurIPS 2020)."""

from dataclasses import dataclass

import numpy as np

from neuralfield.fields.coordinate_network import CoordinateNetwork, FourierFeatures
from neuralfield.fields.settings import (
    FieldSettings,
    activation_choice,
    frequency_count,
    frequency_scale,
    layer_count,
    layer_width,
)
from neuralfield.images.image import ImageShape
from neuralfield.nn.layers import ACTIVATIONS, Activation, make_layers, plain_weights


@dataclass(frozen=True)
class Fourier(FieldSettings):
    """[sin(2 pi B p), cos(2 pi B p)], followed by layers with one activation.

    Elements of B are sampled from N(0, scale ** 2). For relu, initial weights and biases are
    uniform in [-1, 1] / sqrt(fan_in).
    """

    title = "Random Fourier features of the position before a network (Tancik et al. 2020)"
    usual_learning_rate = 3e-3

    frequencies: int = frequency_count(128)
    scale: float = frequency_scale(10.0)
    hidden_layers: int = layer_count(3, "layers after the Fourier features", minimum=1)
    width: int = layer_width(128)
    activation: str = activation_choice("relu")

    @property
    def sizes(self) -> list[int]:
        return [2 * self.frequencies, *[self.width] * self.hidden_layers]

    def build(self, shape: ImageShape, generator: np.random.Generator) -> CoordinateNetwork:
        encoding = FourierFeatures(generator.normal(0, self.scale, size=(2, self.frequencies)))
        # with He's initialization for relu, the initial sum of many frequencies hinders the fit
        usual = ACTIVATIONS[self.activation].initializer
        initializer = plain_weights if self.activation == "relu" else usual
        layers = make_layers(self.weight_shapes(shape), initializer, generator)
        activations = [Activation(self.activation)] * self.hidden_layers
        return self.network(encoding, layers, activations)
