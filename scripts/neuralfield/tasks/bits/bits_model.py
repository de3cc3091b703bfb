"""The model of a coded image, as stored in a file while it is trained: latents and networks."""

from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Self

from neuralfield.images.image import CHANNELS
from neuralfield.system.settings import Settings, setting
from neuralfield.tasks.bits.latent_network import USUAL_HIDDEN, LatentNetwork
from neuralfield.tasks.stored_model import Arrays, Described, Metadata, StoredModel

_LARGEST_SIDE_PX = 1 << 16


@dataclass(frozen=True)
class BitsSettings(Settings):
    """The networks of a coded image."""

    place: ClassVar[str] = "network: {}"

    hidden: int = setting(
        USUAL_HIDDEN,
        "number of hidden values of the synthesis",
        unit="values",
        minimum=1,
        maximum=64,
    )


@dataclass(frozen=True, eq=False)
class BitsModel(StoredModel[LatentNetwork]):
    """Latents and networks in floating point, from which an image's file is made."""

    what, kind = "a network of a coded image", "bits"

    settings: BitsSettings
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
        sides = {"width": self.width, "height": self.height, "mode": self.mode}
        return {"network": asdict(self.settings), **sides}

    @classmethod
    def from_described(cls, arrays: Arrays, description: Described, metadata: Metadata) -> Self:
        width, height, mode = (description[key] for key in ("width", "height", "mode"))
        if not all(type(side) is int and 0 < side <= _LARGEST_SIDE_PX for side in (width, height)):
            raise ValueError(f"size {width} x {height}")
        if sum(array.size for array in arrays.values()) < width * height:
            raise ValueError("fewer latents than pixels")
        if mode not in CHANNELS:
            raise ValueError(f"mode {mode!r}")
        settings = BitsSettings.from_mapping(description["network"])
        return cls(settings, width, height, mode, arrays, metadata)

    def fresh_network(self) -> LatentNetwork:
        channels = CHANNELS[self.mode]
        return LatentNetwork(self.height, self.width, channels, self.settings.hidden)
