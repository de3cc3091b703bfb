"""A plain fully connected network from a table's inputs to its targets."""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from neuralfield.nn import ops
from neuralfield.nn.layers import ACTIVATIONS, make_layers
from neuralfield.nn.network import Operation, Sequential
from neuralfield.system.settings import Settings, setting


@dataclass(frozen=True)
class Dense(Settings):
    """Linear layers with an activation after each but the last.

    The output ``linear`` is z, the output of the last layer; ``sigmoid`` is 1 / (1 + exp(-z)), a
    probability.
    """

    place: ClassVar[str] = "network: {}"
    suggested_learning_rate: ClassVar[float] = 1e-2

    widths: tuple[int, ...] = setting(
        (32, 32),
        "number of values after each hidden layer; []: no hidden layers, which is a linear"
        " regression, or with `output: sigmoid` a logistic regression",
        unit="values",
        minimum=1,
        expected="a list of at most 1,000 widths, whole numbers >= 1; [] for none",
    )
    activation: str = setting(
        "tanh", "the function after each hidden layer", choices=tuple(ACTIVATIONS)
    )
    bias: bool = setting(True, "whether layers have biases")
    output: str = setting(
        "linear",
        "function of the last layer: linear (none), or sigmoid for probabilities",
        choices=("linear", "sigmoid"),
    )

    def weight_shapes(self, inputs: int, outputs: int) -> list[tuple[int, int]]:
        """Return the shape of each layer's matrix, to compute the memory use in advance."""
        return list(pairwise((inputs, *self.widths, outputs)))

    def build(self, inputs: int, outputs: int, generator: np.random.Generator) -> Sequential:
        """Create a network with initial weights, in float64 on the CPU."""
        shapes, activation = self.weight_shapes(inputs, outputs), ACTIVATIONS[self.activation]
        operations: list[Operation] = []
        for layer in make_layers(shapes, activation.initializer, generator, bias=self.bias):
            operations += [layer, activation.of]
        last = [ops.sigmoid] if self.output == "sigmoid" else []
        return Sequential([*operations[:-1], *last])
