"""A network of Gaussian bells (Ramasinghe & Lucey, "Beyond periodicity: towards a unifying
framework for activations in coordinate-MLPs", ECCV 2022)."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from neuralfield.fields.coordinate_network import CoordinateNetwork, Identity, Output
from neuralfield.images.image import PictureShape
from neuralfield.nn import ops
from neuralfield.nn.layers import Layer, make_linear, plain_weights
from neuralfield.nn.tensor import Tensor
from neuralfield.system.setting_checks import require_positive, require_whole


@dataclass(frozen=True)
class Bell:
    """exp(-(frequency * z) ** 2) of a layer's output z."""

    frequency: float
    name = "gaussian"

    def after(self, layer: Layer, x: Tensor) -> Tensor:
        """The activation of the layer's output for `x`."""
        return ops.gaussian(layer(x, self.frequency))


@dataclass(frozen=True)
class Gauss:
    """exp(-(scale z) ** 2) with z = W x + b in every layer but the last, which is linear.

    In the paper's letters scale = 1 / (sqrt(2) sigma). Weights and biases start uniform in
    [-1, 1] / sqrt(fan_in).

    Attributes
    ----------
    hidden_layers : int
        Layers between the first and the last.
    width : int
        Values in each.
    scale : float
        How narrow the bells are. Higher: finer detail, and what is learned at a pixel says less
        of its neighbours.
    output, steepness
        See `neuralfield.fields.coordinate_network.Output`.
    """

    hidden_layers: int = 3
    width: int = 128
    scale: float = 10.0
    output: str = "linear"
    steepness: float = 4.0

    def __post_init__(self) -> None:
        require_positive(self, "scale", "steepness")
        require_whole(self, "width", at_least=1)
        require_whole(self, "hidden_layers", at_least=0)

    @property
    def suggested_learning_rate(self) -> float:
        """Of Adam and Muon."""
        return 1e-3

    def weight_shapes(self, shape: PictureShape) -> list[tuple[int, int]]:
        """Shape of each layer's matrix."""
        return list(pairwise((2, *[self.width] * (1 + self.hidden_layers), shape.channels)))

    def build(self, shape: PictureShape, generator: np.random.Generator) -> CoordinateNetwork:
        """A network with fresh weights."""
        layers = [
            make_linear(fan_in, fan_out, plain_weights, generator)
            for fan_in, fan_out in self.weight_shapes(shape)
        ]
        bells = [Bell(self.scale)] * (1 + self.hidden_layers)
        return CoordinateNetwork(Identity(), layers, bells, Output(self.output, self.steepness))
