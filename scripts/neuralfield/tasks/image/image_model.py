"""A trained network on disk: its weights, and everything needed to draw with them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from neuralfield.fields import (
    CoordinateNetwork,
    FieldSettings,
    PictureShape,
    Upscaler,
    UpscalingNetwork,
    build_field,
    describe_field,
    network_settings,
)
from neuralfield.images.image import CHANNELS
from neuralfield.nn.network import Network, require_enough, require_numbers
from neuralfield.system.checkpoint import load_described, record_of, require_format, save_arrays
from neuralfield.system.device import Device, to_host

_FORMAT = 1
_LARGEST_SIDE_PX = 1 << 20


@dataclass(frozen=True)
class Model:
    """A picture as a function.

    Attributes
    ----------
    settings : FieldSettings or Upscaler
        The network's settings, nothing left to defaults.
    shape : PictureShape
        Size and channels of the picture it was taught.
    mode : {"bilevel", "grey", "rgb", "rgba"}
    arrays : dict of name to array
        Weights, and buffers such as random frequencies.
    metadata : dict
        How it was made: ``step``, ``training`` settings, ``engine``, ``device`` ("cpu" or "gpu"),
        ``precision`` ("float32", "float64" or "mixed"), ``footprint`` (whether a pixel is the mean
        over its square), ``picture`` (digest of what it was taught, see `images.facts`).
    """

    settings: FieldSettings | Upscaler
    shape: PictureShape
    mode: str
    arrays: dict[str, np.ndarray]
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def width(self) -> int:
        """Width of the training picture in pixels."""
        return self.shape.width

    @property
    def height(self) -> int:
        """Height of the training picture in pixels."""
        return self.shape.height

    @property
    def channels(self) -> int:
        """Values for each pixel."""
        return self.shape.channels

    @property
    def footprint(self) -> bool:
        """Whether it was taught means over pixels' squares, and is drawn as such."""
        return bool(self.metadata.get("footprint", False))

    @property
    def parameter_count(self) -> int:
        """How many numbers were trained."""
        return build_field(self.settings, self.shape).parameter_count

    @property
    def provenance(self) -> dict[str, Any]:
        """What networks of one training have in common, whatever their step; plain values."""
        record = {key: self.metadata.get(key) for key in ("picture", "training", "footprint")}
        shape = {"width": self.width, "height": self.height, "mode": self.mode}
        return {**record, "field": describe_field(self.settings), **shape}

    def network(
        self, device: Device, dtype: str = "float32"
    ) -> CoordinateNetwork | UpscalingNetwork:
        """The network with its weights, ready to be called on a device.

        Raises
        ------
        ConfigError
            The arrays are not those of the field.
        """
        network = build_field(self.settings, self.shape)
        return network.with_weights(self.arrays, device, dtype)


def save_model(
    path: Path,
    network: Network[Any],
    settings: FieldSettings | Upscaler,
    shape: PictureShape,
    mode: str,
    metadata: Mapping[str, Any],
) -> None:
    """Write a network so that it can be drawn anywhere; the same network gives the same bytes."""
    description = {
        "format": _FORMAT,
        "field": describe_field(settings),
        "width": shape.width,
        "height": shape.height,
        "channels": shape.channels,
        "mode": mode,
        "record": dict(metadata),
    }
    save_arrays(path, {name: to_host(a) for name, a in network.arrays.items()}, description)


def load_model(path: Path | str) -> Model:
    """Read a model or a snapshot.

    Raises
    ------
    CheckpointError
        The file is missing, damaged, of an unknown format, or not a model.
    """
    return load_described(path, "a model", _described)


def _described(arrays: dict[str, np.ndarray], description: Mapping[str, Any]) -> Model:
    """A model out of a file that anybody may have written: nothing in it is believed unchecked."""
    require_format(description["format"], _FORMAT)
    sides = [description[key] for key in ("width", "height", "channels")]
    if not all(type(side) is int for side in sides):
        raise ValueError(f"sizes {sides}")
    shape = PictureShape(*sides)
    if not (0 < shape.width <= _LARGEST_SIDE_PX and 0 < shape.height <= _LARGEST_SIDE_PX):
        raise ValueError(f"size {shape.width} x {shape.height}")
    mode, record = description["mode"], record_of(description)
    if CHANNELS.get(mode) != shape.channels:
        raise ValueError(f"mode {mode!r} with {shape.channels} channels")
    settings = network_settings(description["field"])
    require_numbers(arrays)
    countable = getattr(settings, "hidden_layers", 0) <= len(arrays)
    require_enough(arrays, settings.weight_shapes(shape) if countable else [], settings)
    build_field(settings, shape).load(arrays, "model")
    return Model(settings, shape, mode, arrays, record)
