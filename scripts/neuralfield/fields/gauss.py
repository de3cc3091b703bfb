"""A network of Gaussian bells (Ramasinghe & Lucey, "Beyond periodicity: towards a unifying
framework for activations in coordinate-MLPs", ECCV 2022)."""

from dataclasses import dataclass

import numpy as np

from neuralfield.fields.coordinate_network import CoordinateNetwork, Identity
from neuralfield.fields.settings import DirectField
from neuralfield.images.image import ImageShape
from neuralfield.nn import ops
from neuralfield.nn.arithmetic import Arithmetic, Value
from neuralfield.nn.layers import Nonlinearity, make_layers, plain_weights
from neuralfield.nn.tensor import Tensor
from neuralfield.system.settings import setting


@dataclass(frozen=True)
class Bell(Nonlinearity):
    """exp(-(frequency * z) ** 2) of a layer's output z."""

    frequency: float
    name = "gaussian"

    def apply(self, z: Tensor) -> Tensor:
        return ops.gaussian(z)

    def formula(self, z: Value, fan_out: int, f: Arithmetic) -> Value:
        return f.exp(z * z * -1.0)


@dataclass(frozen=True)
class Gauss(DirectField):
    """exp(-(scale z) ** 2) with z = W x + b in every layer but the last, which is linear.

    In the notation of the paper, scale = 1 / (sqrt(2) sigma). Initial weights and biases are
    uniform in [-1, 1] / sqrt(fan_in).
    """

    title = "A network of Gaussian functions (Ramasinghe & Lucey 2022)"
    usual_learning_rate = 1e-3

    scale: float = setting(
        10.0,
        "how narrow the Gaussians are: 5 for smooth images, up to 30 for fine detail at 500 pixels"
        " and more",
        above=0,
    )

    def build(self, shape: ImageShape, generator: np.random.Generator) -> CoordinateNetwork:
        layers = make_layers(self.weight_shapes(shape), plain_weights, generator)
        bells = [Bell(self.scale)] * (1 + self.hidden_layers)
        return self.network(Identity(), layers, bells)
