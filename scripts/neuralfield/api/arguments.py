"""Checks of arguments that are no settings of a network or a training."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neuralfield.api.errors import InvalidSettingError, WrongTypeError
from neuralfield.system.settings import settings_of
from neuralfield.tasks.training_settings import ImageExecution


def require_path(where: str, value: Any) -> Path:
    """Return a path; what is none is refused."""
    if not isinstance(value, str | os.PathLike):
        raise WrongTypeError(where, repr(value), "a path")
    return Path(value)


def require_function(where: str, value: Any) -> None:
    """Refuse what cannot be called."""
    if value is not None and not callable(value):
        raise WrongTypeError(where, repr(value), "a function that takes a dict")


def require_mapping(where: str, value: Any) -> None:
    """Refuse what has no keys."""
    if not isinstance(value, Mapping):
        raise WrongTypeError(where, repr(value), "a mapping of settings to values")


def require_execution_setting(name: str, value: Any, place: str | None = None) -> None:
    """Refuse a value that the settings of how a training is run do not allow."""
    declared = settings_of(ImageExecution)[name]
    if not declared.allows(value):
        raise InvalidSettingError(place or name, repr(value), declared.expectation)


def require_positive(where: str, value: Any) -> None:
    """Refuse what is no positive number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise InvalidSettingError(where, repr(value), "a number > 0")
