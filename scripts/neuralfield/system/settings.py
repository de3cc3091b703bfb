"""Declaration of settings: a dataclass declares type, default, bounds, unit and help of each.

Checks, the rules for config files and the tables of the documentation are generated from these
declarations.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Self, get_args, get_origin

from neuralfield.system.errors import ConfigError, did_you_mean

AUTO = "auto"
"""The word in config files for a value that is chosen later."""

_LARGEST = {int: 10**9, float: 1e30}
"""Maximum if none is declared; for float, it is well within the range of float32."""

_MEASURES = ("pixels", "cells")
"""Units of whole numbers that messages name; units of other numbers are always named."""


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
    choices: tuple[str, ...] = ()  # all allowed values of a text
    # number of values of a list; `shortest` applies to config files only
    shortest: int = 0
    longest: int = 1000
    # text of a message instead of the bounds, and the remedy in messages
    expected: str = ""
    remedy: str = ""
    auto: bool = False  # whether a config file may say ``auto``, for a value that is chosen later
    # default and maximum in config files, if they differ from those of the dataclass
    config_default: Any = None
    config_maximum: float | None = None
    in_config: bool = True  # whether it exists in config files
    omit_when_off: bool = False
    """Whether records and names of trainings omit it if it has its default, because such records
    existed before it was added."""
    changes_result: bool = True  # whether the result of a training depends on it
    only_with: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    """Another setting, and its values with which this setting has an effect; empty: any."""
    limited_by: str = ""  # another setting that this setting may not exceed
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
        """Check whether a value is allowed by the declaration."""
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
    """Declare a setting of a subclass of `Settings`; see the attributes of `Setting`."""
    return dataclasses.field(default=default, metadata={"setting": Setting(help, **declared)})


@cache
def settings_of(cls: type) -> dict[str, Setting]:
    """Return the settings of a class by name; keyword-only settings are last."""
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
    """Base class of frozen dataclasses of settings.

    Settings are checked when an instance is created: `ConfigError` is raised if a value is not
    allowed by its declaration.
    """

    place: ClassVar[str] = "fields: {}"
    """The location in messages, with braces in place of the setting's name."""

    def __post_init__(self) -> None:
        for name, declared in settings_of(type(self)).items():
            value = getattr(self, name)
            if not declared.allows(value):
                raise ConfigError(self.place.format(name), repr(value), declared.expectation)

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any]) -> Self:
        """Create settings from a mapping as in files, with lists instead of tuples.

        Raises `ConfigError` if a key is unknown or a value is not allowed.
        """
        # "training", and not the name of a class that users do not know
        known, where = settings_of(cls), cls.place.removesuffix(".{}").format(cls.__name__)
        if not isinstance(given, Mapping):  # possible for a file from an untrusted source
            raise ConfigError(where, repr(given), "a mapping of settings to values")
        unknown = sorted(set(given) - set(known), key=str)
        if unknown:
            guess = did_you_mean(unknown[0], known)
            raise ConfigError(where, f"unknown {unknown}", f"some of {', '.join(known)}", guess)
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
    """Describe the bounds of a number for messages: ``a whole number of pixels from 1 to 1024``."""
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
    """Return a list of choices in words: ``adam, muon or sgd``."""
    *others, last = map(str, choices)
    return f"{', '.join(others)} or {last}" if others else last
