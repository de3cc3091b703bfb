"""Settings of a training that others of them limit."""

import math
from collections.abc import Mapping
from typing import Any

from neuralfield.errors import ConfigError
from wording import as_written


def above_their_limits(training: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Settings that are larger than another one allows, each with the name of that."""
    pairs = (
        ("minimum_learning_rate", "learning_rate"),
        ("segments", "steps"),
        ("warmup_steps", "steps"),
        ("time_margin_s", "time_limit_s"),
    )
    return [pair for pair in pairs if training.get(pair[0], 0) > training.get(pair[1], math.inf)]


def above_its_limit(
    where: str, training: Mapping[str, Any], key: str, limit_key: str
) -> ConfigError:
    """What to say of one of them, which stands at `where`."""
    expected = f"at most {limit_key}, which is {training[limit_key]:g}"
    return ConfigError(where, as_written(training[key]), expected)
