"""Coordinate networks, by name. A new one is a file beside these and a line in `FIELDS`."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from neuralfield.errors import ConfigError
from neuralfield.fields.cafe import Cafe
from neuralfield.fields.finer import Finer
from neuralfield.fields.fourier import Fourier
from neuralfield.fields.gauss import Gauss
from neuralfield.fields.hashgrid import Hashgrid
from neuralfield.fields.mlp import PRESETS, Mlp
from neuralfield.fields.network import CoordinateNetwork
from neuralfield.fields.settings import FieldSettings
from neuralfield.fields.shape import PictureShape
from neuralfield.fields.siren import Siren
from neuralfield.fields.wire import Wire
from neuralfield.weights import require_memory_for

FIELDS: dict[str, type[FieldSettings]] = {
    "siren": Siren,
    "finer": Finer,
    "wire": Wire,
    "gauss": Gauss,
    "fourier": Fourier,
    "hashgrid": Hashgrid,
    "cafe": Cafe,
    "mlp": Mlp,
}


def field_settings(description: Mapping[str, Any]) -> FieldSettings:
    """Read a field's settings.

    Parameters
    ----------
    description : mapping
        ``type`` names the field; ``preset`` may name a ready-made one; the other keys are its
        settings, with the defaults of its class.

    Raises
    ------
    ConfigError
        An unknown type, preset or key, or a value out of range.
    """
    given = dict(description)
    kind, preset = given.pop("type", None), given.pop("preset", None)
    if kind not in FIELDS:
        raise ConfigError("fields: type", repr(kind), f"one of {', '.join(FIELDS)}")
    if preset is not None:
        if kind != "mlp" or preset not in PRESETS:
            expected = f"type mlp and one of {', '.join(PRESETS)}"
            raise ConfigError("fields: preset", repr(preset), expected)
        given = PRESETS[preset] | given
    known = [field.name for field in dataclasses.fields(FIELDS[kind])]
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ConfigError(f"fields: {kind}", f"unknown {unknown}", f"some of {', '.join(known)}")
    if "widths" in given:
        given["widths"] = tuple(given["widths"])
    return FIELDS[kind](**given)


def describe_field(settings: FieldSettings) -> dict[str, Any]:
    """The settings as plain values, all defaults written out: the inverse of `field_settings`."""
    kind = next(name for name, cls in FIELDS.items() if isinstance(settings, cls))
    plain = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in dataclasses.asdict(settings).items()
    }
    return {"type": kind} | plain


def build_field(
    settings: FieldSettings, shape: PictureShape, random_seed: int = 0
) -> CoordinateNetwork:
    """A network with fresh weights, in float64 on the CPU.

    The weights are a function of the settings, the shape and the seed alone.

    Raises
    ------
    ResourceError
        The network is larger than the memory there is.
    """
    require_memory_for(settings.weight_shapes(shape), "fields")
    return settings.build(shape, np.random.default_rng(random_seed))
