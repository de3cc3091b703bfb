"""A trained network on disk: its weights, and everything needed to draw with them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from neuralfield.checkpoint import load_arrays, save_arrays
from neuralfield.device import Device, to_host
from neuralfield.errors import CheckpointError, NeuralfieldError
from neuralfield.fields import (
    CoordinateNetwork,
    FieldSettings,
    PictureShape,
    build_field,
    describe_field,
    field_settings,
)

_FORMAT = 1
_LARGEST_SIDE_PX = 1 << 20


@dataclass(frozen=True)
class Model:
    """A picture as a function.

    Attributes
    ----------
    settings : Siren, Mlp or Fourier
        The field's settings, nothing left to defaults.
    shape : PictureShape
        Size and channels of the picture it was taught.
    mode : {"bilevel", "grey", "rgb", "rgba"}
    arrays : dict of name to array
        Weights, and buffers such as random frequencies.
    metadata : dict
        How it was made: ``step``, ``training`` settings, ``engine``, ``device`` ("cpu" or "gpu"),
        ``precision`` ("float32", "float64" or "mixed"), ``footprint`` (whether a pixel is the mean
        over its square).
    """

    settings: FieldSettings
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

    def network(self, device: Device, dtype: str = "float32") -> CoordinateNetwork:
        """The network with its weights, ready to be called on a device.

        Raises
        ------
        ConfigError
            The arrays are not those of the field.
        """
        network = build_field(self.settings, self.shape)
        network.load(self.arrays, "model")
        for tensor in network.parameters.values():
            tensor.differentiable = False
        return network.to(device, dtype)


def save_model(
    path: Path,
    network: CoordinateNetwork,
    settings: FieldSettings,
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
    arrays, description = load_arrays(Path(path))
    try:
        if description["format"] != _FORMAT:
            found = f"format {description['format']!r}"
            raise CheckpointError(str(path), found, f"format {_FORMAT}", "update neuralfield")
        settings = field_settings(description["field"])
        width, height, channels = (int(description[k]) for k in ("width", "height", "channels"))
        if not (0 < width <= _LARGEST_SIDE_PX and 0 < height <= _LARGEST_SIDE_PX):
            raise ValueError(f"size {width} x {height}")
        if channels not in (1, 3, 4):
            raise ValueError(f"{channels} channels")
        shape = PictureShape(width, height, channels)
        model = Model(settings, shape, description["mode"], arrays, description["record"])
    except (KeyError, TypeError, ValueError) as error:
        found = f"not a model ({type(error).__name__}: {error})"
        raise CheckpointError(str(path), found, "a model written by neuralfield") from error
    except CheckpointError:
        raise
    except NeuralfieldError as error:
        raise CheckpointError(str(path), str(error), "a model of a field known here") from error
    return model
