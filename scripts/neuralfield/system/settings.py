"""Settings that are declared once: a dataclass says type, default, bounds, unit and help of each.

Checks, the rules for config files and the tables of the documentation are made from that.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Self, get_args, get_origin

from neuralfield.system.errors import ConfigError

AUTO = "auto"
"""The word of config files for a value that is chosen later."""

_LARGEST = {int: 10**9, float: 1e30}
"""The maximum where none is declared; for float still finite in float32, with some room."""

_MEASURES = ("pixels", "cells")
"""Units of whole numbers that messages name; those of other numbers are always named."""


@dataclass(frozen=True)
class Setting:
    """One setting of a dataclass, as `setting` declares it."""

    help: str  # one line for users
    unit: str = ""  # empty for a number without one
    # bounds of a number, or of each number of a list; `above` and `below` are exclusive
    minimum: float | None = None
    above: float | None = None
    maximum: float | None = None
    below: float | None = None
    choices: tuple[str, ...] = ()  # all values of a text
    # number of values of a list; `shortest` holds for config files alone
    shortest: int = 0
    longest: int = 1000
    # the text of a message instead of the bounds, and the remedy that it names
    expected: str = ""
    remedy: str = ""
    auto: bool = False  # whether a config file may say ``auto``, for which a value is chosen later
    # default and maximum of config files, where these differ from the dataclass's
    config_default: Any = None
    config_maximum: float | None = None
    in_config: bool = True  # whether config files have it
    omit_when_off: bool = False
    """Whether records and names of trainings leave it out at its default, because it was added when
    there were such records."""
    changes_result: bool = True  # whether the result of a training depends on it
    only_with: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    """Another setting, and those of its values beside which this one has an effect; empty: all."""
    limited_by: str = ""  # another setting that this one may not exceed
    kind: type = str  # bool, int, float or str: of the value, or of each value of a list
    is_list: bool = False
    default: Any = None

    @property
    def expectation(self) -> str:
        """The values that are allowed, in words."""
        if self.expected:
            return self.expected
        if self.choices:
            return any_of(self.choices)
        if self.kind is bool:
            return "true or false"
        bounds = {name: getattr(self, name) for name in ("minimum", "above", "maximum", "below")}
        text = number_in_words(is_whole=self.kind is int, unit=self.unit, **bounds)
        return f"a list, each value {text}" if self.is_list else text

    def allows(self, value: Any) -> bool:
        """Return whether a value is one of those that are declared."""
        if self.is_list:
            is_short = isinstance(value, tuple) and len(value) <= self.longest
            return is_short and all(map(self._allows_one, value))
        return (value is None and self.default is None) or self._allows_one(value)

    def _allows_one(self, value: Any) -> bool:
        if self.choices:
            return value in self.choices
        if self.kind is bool:
            return isinstance(value, bool)
        wanted = int if self.kind is int else int | float
        if isinstance(value, bool) or not isinstance(value, wanted):
            return False
        return (
            (self.minimum is None or value >= self.minimum)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
            and (self.maximum is None or value <= self.maximum)
        )


def setting(default: Any, help: str, **declared: Any) -> Any:
    """Declare a setting of a dataclass derived from `Settings`: see the attributes of `Setting`."""
    return dataclasses.field(default=default, metadata={"setting": Setting(help, **declared)})


@cache
def settings_of(cls: type) -> dict[str, Setting]:
    """Return the settings of a class by name, those given by keyword alone after the others."""
    found = {}
    for field in sorted(dataclasses.fields(cls), key=lambda field: bool(field.kw_only)):
        declared: Setting = field.metadata["setting"]
        kind: Any = next(iter(get_args(field.type)), field.type)
        is_unbounded = declared.maximum is None and declared.below is None
        found[field.name] = dataclasses.replace(
            declared,
            kind=kind,
            is_list=get_origin(field.type) is tuple,
            default=field.default,
            maximum=_LARGEST.get(kind) if is_unbounded else declared.maximum,
        )
    return found


@dataclass(frozen=True)
class Settings:
    """Base of frozen dataclasses whose settings are checked when one is made: `ConfigError` is
    raised where a value is not one of those that its class declares.
    """

    place: ClassVar[str] = "fields: {}"
    """The beginning of messages, with braces in place of the setting's name."""

    def __post_init__(self) -> None:
        for name, declared in settings_of(type(self)).items():
            value = getattr(self, name)
            if not declared.allows(value):
                raise ConfigError(self.place.format(name), repr(value), declared.expectation)

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any]) -> Self:
        """Read settings as files have them, with lists in place of tuples; raises `ConfigError`
        where a key is unknown, or a value is not allowed.
        """
        known, where = settings_of(cls), cls.place.format(cls.__name__)
        if not isinstance(given, Mapping):  # read from a file that anybody may have written
            raise ConfigError(where, repr(given), "a mapping of settings to values")
        unknown = sorted(set(given) - set(known))
        if unknown:
            raise ConfigError(where, f"unknown {unknown}", f"some of {', '.join(known)}")
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in given.items()})

    def described(self) -> dict[str, Any]:
        """Return the settings as plain values for files, names and records; see `from_mapping`."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, declared in settings_of(type(self)).items()
            if (value := getattr(self, name)) != declared.default or not declared.omit_when_off
        }


def number_in_words(
    *,
    is_whole: bool,
    unit: str = "",
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    below: float | None = None,
) -> str:
    """Put bounds of a number as messages say them: ``a whole number of pixels from 1 to 1024``."""
    words = "a whole number" if is_whole else "a number"
    if unit and (not is_whole or unit in _MEASURES):
        words += f" of {unit}"
    if maximum in _LARGEST.values():
        largest = f", at most {'10^9' if is_whole else '10^30'}"
    elif minimum is not None and maximum is not None:
        return f"{words} from {minimum} to {maximum}"
    else:
        largest = "" if maximum is None else f" and at most {maximum}"
    bounds = ((">=", minimum), (">", above), ("below", below))
    limits = " and ".join(f"{sign} {bound}" for sign, bound in bounds if bound is not None)
    return f"{words} {limits}{largest}"


def any_of(choices: tuple[str, ...]) -> str:
    """List choices in words: ``adam, muon or sgd``."""
    *others, last = map(str, choices)
    return f"{', '.join(others)} or {last}" if others else last
