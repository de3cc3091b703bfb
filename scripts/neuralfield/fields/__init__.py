"""Coordinate networks by name. To add a network, add a module here and an entry in `FIELDS`."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from neuralfield.fields.cafe import Cafe
from neuralfield.fields.coordinate_network import CoordinateNetwork as CoordinateNetwork
from neuralfield.fields.finer import Finer
from neuralfield.fields.fourier import Fourier
from neuralfield.fields.gauss import Gauss
from neuralfield.fields.hashgrid import Hashgrid
from neuralfield.fields.mlp import Mlp
from neuralfield.fields.settings import FieldSettings
from neuralfield.fields.siren import Siren
from neuralfield.fields.wire import Wire
from neuralfield.images.image import ImageShape
from neuralfield.nn.network import ZeroGenerator, require_memory_for
from neuralfield.system.errors import ConfigError

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
    """Read the settings of a field.

    The key ``type`` names the field, and the other keys are its settings; defaults are those of the
    settings class. Raises `ConfigError` for an unknown type or key, or a value out of range.
    """
    given = dict(description)
    kind = given.pop("type", None)
    if kind not in FIELDS:
        raise ConfigError("fields: type", repr(kind), f"one of {', '.join(FIELDS)}")
    return FIELDS[kind].from_mapping(given)


def suggested_learning_rate(field: Mapping[str, Any]) -> float:
    """Return the default learning rate of a network, which may depend on all of its settings."""
    description = {key: value for key, value in field.items() if key not in ("training", "output")}
    return field_settings(description).suggested_learning_rate


def describe_field(settings: FieldSettings) -> dict[str, Any]:
    """Return settings as plain values, with all defaults: the inverse of `field_settings`."""
    kind = next(name for name, cls in FIELDS.items() if type(settings) is cls)
    return {"type": kind} | settings.described()


def build_field(
    settings: FieldSettings, shape: ImageShape, random_seed: int | None = 0
) -> CoordinateNetwork:
    """Create a network with initial weights, in float64 on the CPU.

    The weights depend only on the settings, the shape and the seed; without a seed they are zeros,
    which is faster if weights are loaded afterwards. Raises `ResourceError` if the network does not
    fit in memory.
    """
    require_memory_for(settings.weight_shapes(shape), "fields")
    seeded = random_seed is not None
    return settings.build(shape, np.random.default_rng(random_seed) if seeded else ZeroGenerator())
