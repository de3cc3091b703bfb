"""Error messages for invalid settings, with the expected value and a remedy."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from math import inf, isfinite
from typing import Any

import yaml
from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import ValidationError

from config.schema import OTHER_KINDS, read_schema, resolved
from config.sources import Place, WhereIs, at, mapping
from neuralfield.system.errors import ConfigError, did_you_mean
from neuralfield.system.settings import any_of, number_in_words


class Problems(Exception):
    """All errors in the settings, one line each, but one for each place and value.

    A value of the wrong type violates several rules at once.
    """

    def __init__(self, errors: Iterable[ConfigError]) -> None:
        self.errors = [*{(error.where, str(error.found)): error for error in errors}.values()]
        super().__init__("\n".join(map(str, self.errors)))


_TYPES = {
    "integer": lambda _, value: type(value) is int,
    "number": lambda _, value: type(value) is int or (type(value) is float and isfinite(value)),
}
_Validator = validators.extend(
    Draft202012Validator, type_checker=Draft202012Validator.TYPE_CHECKER.redefine_many(_TYPES)
)
"""Draft 2020-12, but 2.0 is not an integer, and infinity and NaN are not numbers."""


def mistakes_in(
    value: Any,
    rule: Mapping[str, Any],
    where_is: WhereIs,
    above: Place = (),
    whole: Mapping[str, Any] | None = None,
) -> Iterator[ConfigError]:
    """Yield an error for each violation of a rule in the value at the place `above`.

    `whole` are all settings, which are searched for a place where an unknown key would be valid.
    """
    found = _validator(rule).iter_errors(value)
    for error in sorted(found, key=lambda error: [*map(str, error.absolute_path)]):
        yield from _in_words(error, where_is, above, whole or {})


def _validator(rule: Mapping[str, Any]) -> Any:
    return _Validator({"$defs": read_schema()["$defs"], **rule})


def _in_words(
    error: ValidationError, where_is: WhereIs, above: Place, whole: Mapping[str, Any]
) -> Iterator[ConfigError]:
    place: Place = (*above, *error.absolute_path)
    rule: Any = error.schema
    value: Any = error.instance
    if error.validator == "additionalProperties":
        for key in (key for key in value if key not in rule["properties"]):
            yield _unknown_key((*place, key), value[key], rule, whole, where_is)
    elif error.validator == "required":
        assert isinstance(error.validator_value, list)
        for key in error.validator_value:
            if key not in value:
                missing = resolved(rule.get("properties", read_schema()["properties"])[key])
                remedy = missing.get("x-remedy", rule.get("x-remedy", ""))
                yield ConfigError(where_is((*place, key)), "missing", expectation(missing), remedy)
    elif "propertyNames" in error.absolute_schema_path:
        found = f"the name {as_written(value)}"
        yield ConfigError(where_is(place), found, rule["x-expected"], rule["x-remedy"])
    else:
        remedy = rule.get("x-remedy", "")
        if error.validator == "enum" and isinstance(value, str):
            remedy = did_you_mean(value, error.validator_value) or remedy
        is_whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e15
        if is_whole and _validator(rule).is_valid(int(value)):
            remedy = f"write {value:.0f}"
        yield ConfigError(where_is(place), as_written(value), expectation(rule), remedy)


def _unknown_key(
    place: Place, value: Any, rule: Mapping[str, Any], whole: Mapping[str, Any], where_is: WhereIs
) -> ConfigError:
    where, key = where_is(place), str(place[-1])
    guess = did_you_mean(key, rule["properties"])
    expected = f"one of {', '.join(rule['properties'])}"
    expected = rule.get("x-keys", "a key that is documented in config.yaml" if guess else expected)
    if home := _home(place[:-1], key, whole):
        own = read_schema()["$defs"].get(home[0], {}).get("properties", {}).get(key, {})
        if own.get("type") == "array" and not isinstance(value, list):
            value = [value]
        expected = f"this key in {'.'.join(map(str, home))}"
        guess = f"write {_nested((*home, key), value, on_command_line=where.startswith('--'))}"
    return ConfigError(where, "unknown key", expected, guess or "remove it")


def _home(place: Place, key: str, whole: Mapping[str, Any]) -> Place:
    """Return a section where a key that is unknown at `place` is valid; empty if there is none."""
    sections = ("training", "render", "timelapse", "evaluate", "edges")
    fields, images = mapping(whole.get("fields")), mapping(whole.get("images"))
    kinds = {name: str(at(field, ("type",))) for name, field in fields.items()}
    homes: dict[Place, str] = {}
    if place[:1] == ("fields",) and len(place) == 2 and kinds[str(place[1])] not in OTHER_KINDS:
        homes = {(*place, "training"): "training"}
    elif not place or place[0] in sections:
        homes = {(section,): section for section in sections}
        homes |= {("fields", name): kind for name, kind in kinds.items()}
        homes |= {("images", name): "image" for name in [*images][:1]}
    rules = read_schema()["$defs"]
    fitting = (
        home for home, name in homes.items() if key in rules.get(name, {}).get("properties", ())
    )
    return next(fitting, ())


def _nested(place: Place, value: Any, *, on_command_line: bool) -> str:
    """Return a setting as it would be written in the config file, or after --config."""
    first, *others = place
    is_plain = isinstance(value, str) and re.fullmatch(r"[\w.-]+", value)
    text = value if is_plain else json.dumps(value) if isinstance(value, str) else _as_yaml(value)
    for step in reversed(others):
        text = f"{{{step}: {text}}}"
    return f"'{first}={text}'" if on_command_line else f"{first}: {text}"


def expectation(rule: Mapping[str, Any]) -> str:
    """Return a description of the values that a rule of the schema allows."""
    if "x-expected" in rule:
        return rule["x-expected"]
    if "anyOf" in rule:
        return " or ".join(map(expectation, rule["anyOf"]))
    if "const" in rule:
        return rule["const"]
    if "enum" in rule:
        return any_of(rule["enum"])
    if rule.get("type") in ("integer", "number"):
        return number_in_words(
            is_whole=rule["type"] == "integer",
            unit=rule.get("x-unit", ""),
            minimum=rule.get("minimum"),
            above=rule.get("exclusiveMinimum"),
            maximum=rule.get("maximum"),
            below=rule.get("exclusiveMaximum"),
        )
    return "true or false" if rule.get("type") == "boolean" else "another value"


def as_written(value: Any) -> str:
    """Return a value as it would be written in the config file, shortened to one line."""
    if isinstance(value, str):
        return repr(value)
    text = _as_yaml(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _as_yaml(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=inf).strip()
    return text.removesuffix("...").strip()
