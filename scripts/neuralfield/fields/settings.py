"""What the settings of every field have in common."""

from typing import Any, ClassVar, Protocol

import numpy as np

from neuralfield.fields.coordinate_network import CoordinateNetwork
from neuralfield.images.image import PictureShape


class FieldSettings(Protocol):
    """Settings of one kind of network: a frozen dataclass, checked when it is made."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def output(self) -> str:
        """See `neuralfield.fields.coordinate_network.Output`."""
        ...

    @property
    def steepness(self) -> float:
        """See `neuralfield.fields.coordinate_network.Output`."""
        ...

    @property
    def suggested_learning_rate(self) -> float:
        """Of Adam and Muon, where the user says none: found by ``benchmarks/field_rates.py``."""
        ...

    def weight_shapes(self, shape: PictureShape) -> list[tuple[int, int]]:
        """Shape of each matrix, at least one: what is needed of memory, before it is taken."""
        ...

    def build(self, shape: PictureShape, generator: np.random.Generator) -> CoordinateNetwork:
        """A network with fresh weights, in float64 on the CPU."""
        ...
