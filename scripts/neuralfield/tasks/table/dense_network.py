"""A plain fully connected network from a table's inputs to its targets."""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from neuralfield.nn import ops
from neuralfield.nn.layers import ACTIVATIONS, INITIALIZERS, make_layers
from neuralfield.nn.network import Operation, Sequential
from neuralfield.system.settings import Settings, setting


@dataclass(frozen=True)
class Dense(Settings):
    """Linear maps with an activation between each two.

    The output ``linear`` is z, what the last layer gives; ``sigmoid`` is 1 / (1 + exp(-z)), a
    probability.
    """

    place: ClassVar[str] = "network: {}"
    suggested_learning_rate: ClassVar[float] = 1e-2

    widths: tuple[int, ...] = setting(
        (32, 32),
        "values after each hidden layer; []: none, a linear regression, or with the output sigmoid"
        " a logistic one",
        unit="values",
        minimum=1,
        expected="a list of at most 1,000 widths, whole numbers >= 1; [] for none",
    )
    activation: str = setting(
        "tanh", "the function after each hidden layer", choices=tuple(ACTIVATIONS)
    )
    bias: bool = setting(True, "whether layers have biases")
    output: str = setting(
        "linear", "linear, or sigmoid for probabilities", choices=("linear", "sigmoid")
    )

    def weight_shapes(self, inputs: int, outputs: int) -> list[tuple[int, int]]:
        """Shape of each layer's matrix: what is needed of memory, before it is taken."""
        return list(pairwise((inputs, *self.widths, outputs)))

    def build(self, inputs: int, outputs: int, generator: np.random.Generator) -> Sequential:
        """Make a network with fresh weights, in float64 on the CPU."""
        shapes, initializer = self.weight_shapes(inputs, outputs), INITIALIZERS[self.activation]
        operations: list[Operation] = []
        for layer in make_layers(shapes, initializer, generator, bias=self.bias):
            operations += [layer, ACTIVATIONS[self.activation]]
        last = [ops.sigmoid] if self.output == "sigmoid" else []
        return Sequential([*operations[:-1], *last])
