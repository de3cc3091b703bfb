"""The plain multilayer perceptron, and the original network of the lion cub as a preset."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from neuralfield.fields.coordinate_network import CoordinateNetwork, CornerBias, Identity, Output
from neuralfield.images.image import PictureShape
from neuralfield.nn.layers import ACTIVATIONS, INITIALIZERS, Activation, make_linear
from neuralfield.system.errors import ConfigError
from neuralfield.system.setting_checks import require_positive, require_whole


@dataclass(frozen=True)
class Mlp:
    """Layers of any widths with one activation.

    Attributes
    ----------
    widths : tuple of int
        Values after each layer but the last.
    activation : {"tanh", "relu", "sigmoid", "sine"}
    bias : bool
        Whether layers have biases.
    coordinates : {"centres", "corners"}
        ``centres``: this project's (see `images.coordinates`). ``corners``: the inputs of the
        original network (see `CornerBias`).
    output, steepness
        See `neuralfield.fields.coordinate_network.Output`.
    """

    widths: tuple[int, ...] = (128, 128, 128)
    activation: str = "tanh"
    bias: bool = True
    coordinates: str = "centres"
    output: str = "linear"
    steepness: float = 4.0

    def __post_init__(self) -> None:
        require_positive(self, "steepness")
        require_whole(self, "widths", at_least=1)
        if self.activation not in ACTIVATIONS:
            expected = f"one of {', '.join(ACTIVATIONS)}"
            raise ConfigError("fields: activation", repr(self.activation), expected)
        if self.coordinates not in ("centres", "corners"):
            raise ConfigError("fields: coordinates", repr(self.coordinates), "centres or corners")

    @property
    def suggested_learning_rate(self) -> float:
        """Of Adam and Muon."""
        return 1e-3

    def weight_shapes(self, shape: PictureShape) -> list[tuple[int, int]]:
        """Shape of each layer's matrix."""
        inputs = CornerBias.size if self.coordinates == "corners" else Identity.size
        return list(pairwise((inputs, *self.widths, shape.channels)))

    def build(self, shape: PictureShape, generator: np.random.Generator) -> CoordinateNetwork:
        """A network with fresh weights."""
        corners = self.coordinates == "corners"
        encoding = CornerBias(shape.width, shape.height) if corners else Identity()
        initializer = INITIALIZERS[self.activation]
        layers = [
            make_linear(fan_in, fan_out, initializer, generator, bias=self.bias)
            for fan_in, fan_out in self.weight_shapes(shape)
        ]
        activations = [Activation(self.activation)] * len(self.widths)
        return CoordinateNetwork(encoding, layers, activations, Output(self.output, self.steepness))


PRESETS: dict[str, dict] = {
    "original": {
        "widths": (128, 128, 256, 128, 64, 64, 64),
        "activation": "tanh",
        "bias": False,
        "coordinates": "corners",
        "output": "sigmoid",
        "steepness": 1.0,
    }
}
"""``original``: the 98,752 weights that were first taught the lion cub."""
