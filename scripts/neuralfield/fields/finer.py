"""FINER: sines whose frequency grows with their input (Liu et al., "FINER: flexible spectral-bias
tuning in implicit neural representation by variable-periodic activation functions", CVPR 2024)."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from neuralfield.fields.coordinate_network import CoordinateNetwork, Identity, Output
from neuralfield.fields.siren import make_sine_layers
from neuralfield.images.image import PictureShape
from neuralfield.nn import ops
from neuralfield.nn.layers import Layer
from neuralfield.nn.tensor import Tensor
from neuralfield.system.setting_checks import require_positive, require_whole


@dataclass(frozen=True)
class VariableSine:
    """sin(frequency * (|z| + 1) * z) of a layer's output z."""

    frequency: float
    name = "variable sine"

    def after(self, layer: Layer, x: Tensor) -> Tensor:
        """The activation of the layer's output for `x`."""
        return ops.variable_sine(layer(x), self.frequency)


@dataclass(frozen=True)
class Finer:
    """sin(omega (|z| + 1) z) with z = W x + b in every layer but the last, which is linear.

    The weights start as SIREN's; biases of the first layer are uniform in [-first_bias,
    first_bias]: where |z| is large a sine is fast, so that they choose how fine the detail is that
    the network starts with. The derivative is the exact one, 2 |z| + 1 where the authors' program
    takes |z| + 1.

    Attributes
    ----------
    hidden_layers : int
        Layers between the first and the last.
    width : int
        Values in each.
    first_omega_0 : float
        Frequency of the first layer.
    omega_0 : float
        Frequency of the other sines.
    first_bias : float
        Largest initial bias of the first layer, k in the paper. The first layer starts with at most
        about first_omega_0 (2 first_bias + 1) / (4 pi) cycles a unit, where the finest pattern of N
        pixels has N / 4: stay below it. Higher: finer detail, more specks.
    weight_scale : float
        Factor on the initial weights of all layers but the last.
    output, steepness
        See `neuralfield.fields.coordinate_network.Output`.
    """

    hidden_layers: int = 3
    width: int = 128
    first_omega_0: float = 30.0
    omega_0: float = 30.0
    first_bias: float = 2.0
    weight_scale: float = 1.0
    output: str = "linear"
    steepness: float = 4.0

    def __post_init__(self) -> None:
        positive = ("first_omega_0", "omega_0", "first_bias", "weight_scale", "steepness")
        require_positive(self, *positive)
        require_whole(self, "width", at_least=1)
        require_whole(self, "hidden_layers", at_least=0)

    @property
    def suggested_learning_rate(self) -> float:
        """Of Adam and Muon."""
        return 3e-4

    def weight_shapes(self, shape: PictureShape) -> list[tuple[int, int]]:
        """Shape of each layer's matrix."""
        return list(pairwise((2, *[self.width] * (1 + self.hidden_layers), shape.channels)))

    def build(self, shape: PictureShape, generator: np.random.Generator) -> CoordinateNetwork:
        """A network with fresh weights."""
        layers = make_sine_layers(
            self.weight_shapes(shape),
            (self.first_omega_0, self.omega_0),
            self.weight_scale,
            generator,
        )
        bias = layers[0].bias
        assert bias is not None
        bias.data[...] = generator.uniform(-self.first_bias, self.first_bias, size=bias.shape)
        sines = [VariableSine(self.first_omega_0)]
        sines += [VariableSine(self.omega_0)] * self.hidden_layers
        return CoordinateNetwork(Identity(), layers, sines, Output(self.output, self.steepness))
