"""What a field is told of the picture, and the check that all field settings share."""

from dataclasses import dataclass
from typing import Any

from neuralfield.errors import ConfigError


@dataclass(frozen=True)
class PictureShape:
    """Sides of the training picture in pixels, and values for each pixel (1 to 4)."""

    width: int
    height: int
    channels: int


def require_positive(settings: Any, *names: str, at_least: float | None = None) -> None:
    """Check numbers, and tuples of them, among a field's settings.

    Raises
    ------
    ConfigError
    """
    for name in names:
        value = getattr(settings, name)
        for number in value if isinstance(value, tuple) else (value,):
            valid = isinstance(number, int | float) and not isinstance(number, bool)
            if not valid or not (number > 0 if at_least is None else number >= at_least):
                limit = "greater than 0" if at_least is None else f"from {at_least} up"
                raise ConfigError(f"fields: {name}", repr(value), f"numbers {limit}")
