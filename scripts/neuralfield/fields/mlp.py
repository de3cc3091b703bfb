"""The plain multilayer perceptron."""

from dataclasses import dataclass

import numpy as np

from neuralfield.fields.coordinate_network import CoordinateNetwork, CornerBias, Identity
from neuralfield.fields.settings import FieldSettings, activation_choice
from neuralfield.images.image import ImageShape
from neuralfield.nn.layers import ACTIVATIONS, Activation, make_layers
from neuralfield.system.settings import setting


@dataclass(frozen=True)
class Mlp(FieldSettings):
    """Layers of arbitrary widths with one activation."""

    title = "A plain, fully connected network"
    usual_learning_rate = 1e-3

    widths: tuple[int, ...] = setting(
        (128, 128, 128),
        "values in each layer but the last",
        unit="values",
        minimum=1,
        shortest=1,
        expected="a list of 1 to 1,000 widths, whole numbers >= 1",
    )
    activation: str = activation_choice("tanh")
    bias: bool = setting(True, "whether layers have biases")
    coordinates: str = setting(
        "centres",
        "inputs of the network: positions of pixel centres from -1 to 1 (centres), or from 0 to 1"
        " between the corner pixels with a column of ones (corners, as in `preset: original`)",
        choices=("centres", "corners"),
    )

    @property
    def sizes(self) -> list[int]:
        inputs = 3 if self.coordinates == "corners" else 2  # as `CornerBias` and `Identity` return
        return [inputs, *self.widths]

    def build(self, shape: ImageShape, generator: np.random.Generator) -> CoordinateNetwork:
        corners = self.coordinates == "corners"
        encoding = CornerBias(shape.width, shape.height) if corners else Identity()
        initializer = ACTIVATIONS[self.activation].initializer
        layers = make_layers(self.weight_shapes(shape), initializer, generator, bias=self.bias)
        activations = [Activation(self.activation)] * len(self.widths)
        return self.network(encoding, layers, activations)
