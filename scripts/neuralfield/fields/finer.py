"""FINER: sines whose frequency grows with their input (Liu et al., "FINER: flexible spectral-bias
tuning in implicit neural representation by variable-periodic activation functions", CVPR 2024)."""

from dataclasses import dataclass

import numpy as np

from neuralfield.fields.coordinate_network import CoordinateNetwork, Identity
from neuralfield.fields.siren import SineField, initial_weight_scale
from neuralfield.images.image import ImageShape
from neuralfield.nn import ops
from neuralfield.nn.arithmetic import Arithmetic, Value
from neuralfield.nn.layers import Nonlinearity
from neuralfield.nn.tensor import Tensor
from neuralfield.system.settings import setting


@dataclass(frozen=True)
class VariableSine(Nonlinearity):
    """sin(frequency * (|z| + 1) * z) of a layer's output z."""

    frequency: float
    name = "variable sine"
    multiplies_layer = False

    def apply(self, z: Tensor) -> Tensor:
        return ops.variable_sine(z, self.frequency)

    def formula(self, z: Value, fan_out: int, f: Arithmetic) -> Value:
        return f.sin((f.absolute(z) + 1.0) * self.frequency * z)


@dataclass(frozen=True)
class Finer(SineField):
    """sin(omega (|z| + 1) z) with z = W x + b in every layer but the last, which is linear.

    Initial weights are those of SIREN; initial biases of the first layer are uniform in
    [-first_bias, first_bias]. The frequency of a sine grows with |z|, so that these biases
    determine how fine the detail of the initial network is. The derivative of (|z| + 1) z is the
    exact one, 2 |z| + 1; the authors' program uses |z| + 1.
    """

    title = "A network of sines whose frequency grows with their input (FINER, Liu et al. 2024)"
    usual_learning_rate = 3e-4

    first_bias: float = setting(
        2.0,
        "largest initial bias of the first layer, k in the paper: it starts with up to about"
        " first_omega_0 (2 first_bias + 1) / (4 pi) cycles a unit; 5 for 200 pixels, 20 for 1,000;"
        " too high gives specks",
        above=0,
    )
    weight_scale: float = initial_weight_scale()

    def build(self, shape: ImageShape, generator: np.random.Generator) -> CoordinateNetwork:
        layers = self.sine_layers(shape, self.weight_scale, generator)
        bias = layers[0].bias
        assert bias is not None
        bias.data[...] = generator.uniform(-self.first_bias, self.first_bias, size=bias.shape)
        sines = [VariableSine(self.first_omega_0)]
        sines += [VariableSine(self.omega_0)] * self.hidden_layers
        return self.network(Identity(), layers, sines)
