"""The model of a coded image, as stored in a file while it is trained: latents and networks."""

from dataclasses import dataclass, field
from typing import Any, Self

from neuralfield.images.image import CHANNELS
from neuralfield.tasks.bits.latent_network import USUAL_HIDDEN, LatentNetwork
from neuralfield.tasks.stored_model import Arrays, Described, Metadata, StoredModel

_LARGEST_SIDE_PX = 1 << 16
_DESCRIBED = ("hidden", "width", "height", "mode")


def usual_hidden(pixels: int) -> int:
    """Return the number of hidden values of the synthesis for an image of a size.

    Weights must not cost small images more than they gain. With 24 hidden values in place of 48,
    four photographs of 256 x 256 pixels took 3.1 % less squared error and weighted bits (with 12,
    3.6 %), and three of 768 x 512 pixels 1.1 % more.
    """
    if pixels <= 1 << 16:
        return 16
    return 24 if pixels <= 1 << 17 else USUAL_HIDDEN


@dataclass(frozen=True, eq=False)
class BitsModel(StoredModel[LatentNetwork]):
    """Latents and networks in floating point, from which an image's file is made."""

    what, kind = "a network of a coded image", "bits"

    hidden: int
    width: int
    height: int
    mode: str
    # see `StoredModel`; the digest is ``picture``
    arrays: Arrays
    metadata: Metadata = field(default_factory=dict)

    @property
    def provenance(self) -> dict[str, Any]:
        record = {key: self.metadata.get(key) for key in ("picture", "training")}
        return record | self.described()

    def described(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _DESCRIBED}

    @classmethod
    def from_described(cls, arrays: Arrays, description: Described, metadata: Metadata) -> Self:
        hidden, width, height, mode = (description[name] for name in _DESCRIBED)
        most = ((hidden, USUAL_HIDDEN), (width, _LARGEST_SIDE_PX), (height, _LARGEST_SIDE_PX))
        if not all(type(number) is int and 0 < number <= limit for number, limit in most):
            raise ValueError(f"{hidden} hidden values, size {width} x {height}")
        if sum(array.size for array in arrays.values()) < width * height:
            raise ValueError("fewer latents than pixels")
        if mode not in CHANNELS:
            raise ValueError(f"mode {mode!r}")
        return cls(hidden, width, height, mode, arrays, metadata)

    def fresh_network(self) -> LatentNetwork:
        return LatentNetwork(self.height, self.width, CHANNELS[self.mode], self.hidden)
