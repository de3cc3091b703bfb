"""Checks of numbers that the settings of all networks share."""

from typing import Any

from neuralfield.system.errors import ConfigError

_LARGEST_NUMBER = 1e30
"""Still finite in float32, with some room for what it is multiplied by."""


def require_positive(settings: Any, *names: str) -> None:
    """Check that some of a network's settings are finite numbers above 0.

    Raises
    ------
    ConfigError
    """
    for name in names:
        value = getattr(settings, name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 < value <= _LARGEST_NUMBER:
            raise ConfigError(f"fields: {name}", repr(value), "a finite number greater than 0")


def require_whole(
    settings: Any,
    *names: str,
    at_least: int,
    at_most: float = _LARGEST_NUMBER,
    section: str = "fields",
) -> None:
    """Check that some of a network's settings, or all numbers of a tuple, are whole numbers.

    Raises
    ------
    ConfigError
    """
    for name in names:
        value = getattr(settings, name)
        for number in value if isinstance(value, tuple) else (value,):
            is_whole = isinstance(number, int) and not isinstance(number, bool)
            if not is_whole or not at_least <= number <= at_most:
                limit = "up" if at_most == _LARGEST_NUMBER else f"to {at_most}"
                expected = f"whole numbers from {at_least} {limit}"
                raise ConfigError(f"{section}: {name}", repr(value), expected)
