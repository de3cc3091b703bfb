"""Checks of training settings that limit each other."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from config.wording import as_written
from neuralfield.system.errors import ConfigError
from neuralfield.system.settings import settings_of
from neuralfield.tasks.training_settings import ImageExecution, ImageTraining

_LIMITS = {
    key: declared.limited_by
    for cls in (ImageTraining, ImageExecution)
    for key, declared in settings_of(cls).items()
    if declared.limited_by
}


def outside_their_limits(
    training: Mapping[str, Any], where: Callable[[str, str], str]
) -> Iterator[ConfigError]:
    """Yield what is wrong between the settings of a training of any kind.

    `where` says where a setting stands, given its name and that of the setting that limits it.
    """
    for key, limit_key in _LIMITS.items():
        if limit_key == "steps" and "budget" in training:
            continue  # the steps that are found are as many as are needed
        if training.get(key, 0) > training.get(limit_key, math.inf):
            expected = f"at most {limit_key}, which is {training[limit_key]:g}"
            yield ConfigError(where(key, limit_key), as_written(training[key]), expected)
    key = "minimum_learning_rate"
    if training["schedule"] == "exponential" and not training[key] > 0:
        expected = "a number above 0, for schedule: exponential to end at"
        yield ConfigError(where(key, "schedule"), as_written(training[key]), expected)
