"""The model of an image, as stored in a file: weights, and everything needed to render it."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from neuralfield.fields import (
    CoordinateNetwork,
    FieldSettings,
    ImageShape,
    build_field,
    describe_field,
    field_settings,
)
from neuralfield.images.image import CHANNELS
from neuralfield.nn.network import require_enough
from neuralfield.tasks.stored_model import Arrays, Described, Metadata, StoredModel

_LARGEST_SIDE_PX = 1 << 20
_RESIDUAL = "residual"


class Renderable:
    """An image as a function, which can be rendered at any size."""

    shape: ImageShape  # size in pixels, and channels
    mode: str  # "bilevel", "grey", "rgb" or "rgba"
    metadata: Metadata

    @property
    def width(self) -> int:
        return self.shape.width

    @property
    def height(self) -> int:
        return self.shape.height

    @property
    def channels(self) -> int:
        return self.shape.channels

    @property
    def footprint(self) -> bool:
        """Whether it was fitted to means over pixels, so that renders are computed as means."""
        return bool(self.metadata.get("footprint", False))


@dataclass(frozen=True)
class Model(Renderable, StoredModel[CoordinateNetwork]):
    """A network that represents an image, with its settings and the record of its training."""

    what = "a model"

    settings: FieldSettings  # all settings of the network
    shape: ImageShape  # size and channels of the training image
    mode: str  # "bilevel", "grey", "rgb" or "rgba"
    # see `StoredModel`; in `metadata`, the digest is ``picture``, and ``footprint`` is whether a
    # pixel is the mean over its square
    arrays: Arrays
    metadata: Metadata = field(default_factory=dict)
    residual: np.ndarray | None = None
    """The image that is added to renders, float32, shape (k * height, k * width, channels), with k
    times the resolution of the training image: see `neuralfield.rendering.residual.find_residual`.
    """

    @property
    def parameter_count(self) -> int:
        return self.fresh_network().parameter_count

    @property
    def provenance(self) -> dict[str, Any]:
        record = {key: self.metadata.get(key) for key in ("picture", "training", "footprint")}
        shape = {"width": self.width, "height": self.height, "mode": self.mode}
        return {**record, "field": describe_field(self.settings), **shape}

    def described(self) -> dict[str, Any]:
        return {
            "field": describe_field(self.settings),
            "width": self.width,
            "height": self.height,
            "channels": self.channels,
            "mode": self.mode,
        }

    @classmethod
    def from_described(cls, arrays: Arrays, description: Described, metadata: Metadata) -> Self:
        sides = [description[key] for key in ("width", "height", "channels")]
        if not all(type(side) is int for side in sides):
            raise ValueError(f"sizes {sides}")
        shape = ImageShape(*sides)
        if not (0 < shape.width <= _LARGEST_SIDE_PX and 0 < shape.height <= _LARGEST_SIDE_PX):
            raise ValueError(f"size {shape.width} x {shape.height}")
        mode = description["mode"]
        if CHANNELS.get(mode) != shape.channels:
            raise ValueError(f"mode {mode!r} with {shape.channels} channels")
        settings = field_settings(description["field"])
        arrays = dict(arrays)
        residual = arrays.pop(_RESIDUAL, None)
        if residual is not None:
            _require_residual(residual, shape)
        countable = getattr(settings, "hidden_layers", 0) <= len(arrays)
        require_enough(arrays, settings.weight_shapes(shape) if countable else [], settings)
        return cls(settings, shape, mode, arrays, metadata, residual)

    def arrays_beside(self) -> dict[str, np.ndarray]:
        return {} if self.residual is None else {_RESIDUAL: self.residual}

    def fresh_network(self) -> CoordinateNetwork:
        return build_field(self.settings, self.shape, random_seed=None)


def _require_residual(residual: np.ndarray, shape: ImageShape) -> None:
    """Check the residual of a file, which may be from an untrusted source; raises ValueError."""
    scale = max(1, len(residual) // shape.height) if residual.ndim == 3 else 1
    expected = (scale * shape.height, scale * shape.width, shape.channels)
    if residual.dtype != np.float32 or residual.shape != expected:
        raise ValueError(f"a residual of {residual.dtype}, shape {residual.shape}")
