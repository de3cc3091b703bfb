"""The base classes of the settings of fields, and settings that several fields share."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from neuralfield.fields.coordinate_network import CoordinateNetwork, Encoding, Output
from neuralfield.images.image import ImageShape
from neuralfield.nn.layers import ACTIVATIONS, Layer, Nonlinearity
from neuralfield.system.settings import Settings, setting


def layer_count(default: int, help: str, minimum: int = 0) -> Any:
    """Declare the setting `hidden_layers`."""
    return setting(default, help, unit="layers", minimum=minimum, maximum=1000)


def layer_width(default: int, unit: str = "values") -> Any:
    """Declare the setting `width`."""
    return setting(default, "values in each layer", unit=unit, minimum=1)


def activation_choice(default: str, **declared: Any) -> Any:
    """Declare the setting `activation`."""
    help = "the function after each hidden layer"
    return setting(default, help, choices=tuple(ACTIVATIONS), **declared)


def frequency_count(default: int) -> Any:
    """Declare the setting `frequencies`."""
    return setting(
        default,
        "number of random frequencies, the rows of B, which are not trained",
        unit="frequencies",
        minimum=1,
    )


def frequency(default: float, help: str, unit: str = "") -> Any:
    """Declare a frequency: the upper bound exceeds the finest pattern of the largest images."""
    return setting(default, help, unit=unit, above=0, maximum=1_000_000)


def frequency_scale(default: float) -> Any:
    """Declare the setting `scale` of random frequencies."""
    return frequency(default, "standard deviation of the frequencies", unit="cycles a unit")


@dataclass(frozen=True, kw_only=True)
class FieldSettings(Settings, ABC):
    """Settings of one kind of coordinate network."""

    usual_learning_rate: ClassVar[float]
    """Default learning rate for Adam and Muon; see ``benchmarks/field_rates.py``."""

    output: str = setting(
        "linear",
        "how the last layer's z becomes a value: linear (1 + z) / 2, sigmoid"
        " 1 / (1 + exp(-steepness z))",
        choices=("linear", "sigmoid"),
        auto=True,
        config_default="auto",
    )
    steepness: float = setting(4.0, "steepness of the sigmoid, for `output: sigmoid`", above=0)

    @property
    def suggested_learning_rate(self) -> float:
        """The learning rate for Adam and Muon if the user gives none."""
        return self.usual_learning_rate

    @property
    @abstractmethod
    def sizes(self) -> Sequence[int]:
        """The number of inputs of the first layer, and of outputs of each layer but the last."""

    def weight_shapes(self, shape: ImageShape) -> list[tuple[int, int]]:
        """Return the shape of each matrix, at least one, to compute the memory use in advance."""
        return list(pairwise((*self.sizes, shape.channels)))

    @abstractmethod
    def build(self, shape: ImageShape, generator: np.random.Generator) -> CoordinateNetwork:
        """Create a network with initial weights, in float64 on the CPU."""

    def network(
        self, encoding: Encoding, layers: Sequence[Layer], activations: Sequence[Nonlinearity]
    ) -> CoordinateNetwork:
        """Create the network from its parts, with the output that the settings select."""
        output = Output(self.output, self.steepness)
        return CoordinateNetwork(encoding, layers, activations, output)


@dataclass(frozen=True)
class DirectField(FieldSettings):
    """Settings of a field whose first layer takes the coordinates without an encoding."""

    hidden_layers: int = layer_count(3, "layers between the first and the last")
    width: int = layer_width(128)

    @property
    def sizes(self) -> list[int]:
        return [2, *[self.width] * (1 + self.hidden_layers)]
