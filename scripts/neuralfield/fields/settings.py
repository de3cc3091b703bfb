"""The base classes of the settings of fields, and settings that several fields share."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from neuralfield.fields.coordinate_network import OUTPUTS, CoordinateNetwork, Encoding, Output
from neuralfield.images.image import ImageShape
from neuralfield.nn.layers import ACTIVATIONS, Layer, Nonlinearity
from neuralfield.system.settings import Settings, setting


def layer_count(default: int, help: str, minimum: int = 0) -> Any:
    """Declare the setting `hidden_layers`."""
    return setting(default, help, unit="layers", minimum=minimum, maximum=1000)


def layer_width(default: int, unit: str = "values") -> Any:
    """Declare the setting `width`."""
    help = f"{unit} in each layer: increase it first for a closer fit; time grows with its square"
    return setting(default, help, unit=unit, minimum=1)


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
    help = "standard deviation of the frequencies in cycles a unit; about N / 20 for N pixels"
    return frequency(default, help, unit="cycles a unit")


@dataclass(frozen=True, kw_only=True)
class FieldSettings(Settings, ABC):
    """Settings of one kind of coordinate network."""

    title: ClassVar[str]
    """What it is, in a few words for users, with its paper."""

    has_kernels: ClassVar[bool] = True
    """Whether the engines ``cpu`` and ``cuda`` have kernels for it; else it needs the tape."""

    usual_learning_rate: ClassVar[float]
    """Default learning rate for Adam and Muon; see ``benchmarks/field_rates.py``."""

    output: str = setting(
        "linear",
        "how the last layer's z becomes a value: linear (1 + z) / 2, or sigmoid"
        " 1 / (1 + exp(-steepness z)), which keeps line art black and white; auto: linear for"
        " photographs, sigmoid for other kinds of images and for binary_cross_entropy",
        choices=OUTPUTS,
        auto=True,
        config_default="auto",
    )
    steepness: float = setting(
        4.0,
        "steepness of the sigmoid: 8 for line art that is rendered large; `output: auto` uses at"
        " most 1 for grey lines and pages of mixed kind",
        above=0,
    )

    @property
    def suggested_learning_rate(self) -> float:
        """The learning rate for Adam and Muon if the user gives none."""
        return self.usual_learning_rate

    @property
    @abstractmethod
    def sizes(self) -> Sequence[int]:
        """The number of real inputs of each layer."""

    @property
    def working_values(self) -> int:
        """The approximate number of values that a training step stores for each point."""
        return sum(self.sizes)

    def layer_shapes(self, channels: int) -> list[tuple[int, int]]:
        """Return the shape of the real matrix that each layer multiplies by."""
        return list(pairwise((*self.sizes, channels)))

    def encoding_shapes(self, shape: ImageShape) -> list[tuple[int, int]]:
        """Return the shapes of the trained arrays of the encoding."""
        return []

    def weight_shapes(self, shape: ImageShape) -> list[tuple[int, int]]:
        """Return the shape of each array of weights, to compute the memory use in advance."""
        return [*self.encoding_shapes(shape), *self.layer_shapes(shape.channels)]

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
