"""A plain fully connected network from a table's inputs to its targets."""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from neuralfield import ops
from neuralfield.device import Array
from neuralfield.errors import ConfigError
from neuralfield.fields.shape import require_whole
from neuralfield.layers import ACTIVATIONS, INITIALIZERS, Activation, Layer, make_linear
from neuralfield.network import Network
from neuralfield.tensor import Tensor

_SECTION = "network"
_MOST_LAYERS = 1000

OUTPUTS = ("linear", "sigmoid")


class DenseNetwork(Network[Layer]):
    """Linear maps with an activation between each two.

    Parameters
    ----------
    layers : list of Layer
    activation : Activation
    output : {"linear", "sigmoid"}
        ``linear``: what the last layer gives, z; ``sigmoid``: 1 / (1 + exp(-z)), a probability.
    """

    def __init__(self, layers: list[Layer], activation: Activation, output: str) -> None:
        super().__init__(layers)
        self.activation = activation
        self.output = output

    def __call__(self, inputs: Array) -> Tensor:
        """Outputs for rows of inputs.

        Parameters
        ----------
        inputs : array, shape (n, inputs)
            Of the network's dtype and device; scaled as it was taught.

        Returns
        -------
        Tensor, shape (n, outputs)
        """
        x = Tensor(inputs)
        for layer in self.layers[:-1]:
            x = self.activation.after(layer, x)
        z = self.layers[-1](x)
        return ops.sigmoid(z) if self.output == "sigmoid" else z


@dataclass(frozen=True)
class Dense:
    """Settings of a `DenseNetwork`.

    Attributes
    ----------
    widths : tuple of int
        Values after each hidden layer. None at all: a linear regression, or with the output
        ``sigmoid`` a logistic regression.
    activation : {"tanh", "relu", "sigmoid", "sine"}
        After each hidden layer.
    bias : bool
        Whether layers have biases.
    output : {"linear", "sigmoid"}
        See `DenseNetwork`.
    """

    suggested_learning_rate: ClassVar[float] = 1e-2

    widths: tuple[int, ...] = (32, 32)
    activation: str = "tanh"
    bias: bool = True
    output: str = "linear"

    def __post_init__(self) -> None:
        require_whole(self, "widths", at_least=1, section=_SECTION)
        if len(self.widths) > _MOST_LAYERS:
            expected = f"at most {_MOST_LAYERS} hidden layers"
            raise ConfigError(f"{_SECTION}: widths", f"{len(self.widths)} widths", expected)
        for name, known in (("activation", tuple(ACTIVATIONS)), ("output", OUTPUTS)):
            if getattr(self, name) not in known:
                expected = f"one of {', '.join(known)}"
                raise ConfigError(f"{_SECTION}: {name}", repr(getattr(self, name)), expected)
        if not isinstance(self.bias, bool):
            raise ConfigError(f"{_SECTION}: bias", repr(self.bias), "true or false")

    def weight_shapes(self, inputs: int, outputs: int) -> list[tuple[int, int]]:
        """Shape of each layer's matrix: what is needed of memory, before it is taken."""
        return list(pairwise((inputs, *self.widths, outputs)))

    def build(self, inputs: int, outputs: int, generator: np.random.Generator) -> DenseNetwork:
        """A network with fresh weights, in float64 on the CPU."""
        initializer = INITIALIZERS[self.activation]
        layers: list[Layer] = [
            make_linear(fan_in, fan_out, initializer, generator, bias=self.bias)
            for fan_in, fan_out in self.weight_shapes(inputs, outputs)
        ]
        return DenseNetwork(layers, Activation(self.activation), self.output)
