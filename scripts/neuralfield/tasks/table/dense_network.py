"""A plain fully connected network from a table's inputs to its targets."""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from neuralfield.nn import ops
from neuralfield.nn.layers import ACTIVATIONS, INITIALIZERS, make_linear
from neuralfield.nn.network import Operation, Sequential
from neuralfield.system.errors import ConfigError
from neuralfield.system.setting_checks import require_whole

_SECTION = "network"
_MOST_LAYERS = 1000

OUTPUTS = ("linear", "sigmoid")


@dataclass(frozen=True)
class Dense:
    """Linear maps with an activation between each two.

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
        ``linear``: what the last layer gives, z; ``sigmoid``: 1 / (1 + exp(-z)), a probability.
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

    def build(self, inputs: int, outputs: int, generator: np.random.Generator) -> Sequential:
        """A network with fresh weights, in float64 on the CPU."""
        initializer, activation = INITIALIZERS[self.activation], ACTIVATIONS[self.activation]
        operations: list[Operation] = []
        for fan_in, fan_out in self.weight_shapes(inputs, outputs):
            layer = make_linear(fan_in, fan_out, initializer, generator, bias=self.bias)
            operations += [layer, activation]
        last = [ops.sigmoid] if self.output == "sigmoid" else []
        return Sequential([*operations[:-1], *last])
