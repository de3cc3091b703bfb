"""What kernels are compiled for, of a classifier: its layers and its batch, as plain numbers."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from neuralfield.engines.cuda.classifier.convolution_plan import ConvolutionShape

_WEIGHTS_OFFSET_ELEMENTS = 4
"""Parts of a layer's gradient begin at a multiple of this: they are added up four at a time."""


@dataclass(frozen=True)
class ClassifierPlan:
    """Convolutions, each with pooling and relu, and then linear layers.

    Attributes
    ----------
    convolutions : tuple of ConvolutionShape
    sizes : tuple of int
        Values into each linear layer, and the classes.
    dropout : float
        After each linear layer but the last.
    batch : int
        Pictures.
    pixels : int
        Of a picture.
    """

    convolutions: tuple[ConvolutionShape, ...]
    sizes: tuple[int, ...]
    dropout: float
    batch: int
    pixels: int

    @property
    def layers(self) -> int:
        """Linear layers."""
        return len(self.sizes) - 1

    @property
    def part_offsets(self) -> list[int]:
        """Where the parts of each linear layer's gradient begin, and where all end."""
        offsets = [0]
        for into, out in pairwise(self.sizes):
            end = offsets[-1] + (into + 1) * out
            offsets.append(-(-end // _WEIGHTS_OFFSET_ELEMENTS) * _WEIGHTS_OFFSET_ELEMENTS)
        return offsets

    def head_constants(self) -> dict[str, Any]:
        """For the sources of the linear layers' kernels."""
        return {
            "LAYERS": self.layers,
            "SIZES": "{" + ", ".join(map(str, self.sizes)) + "}",
            "BATCH": self.batch,
        }
