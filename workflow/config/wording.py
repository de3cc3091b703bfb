"""What is wrong with the settings, in words that a user can act on."""

import difflib
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import yaml
from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import ValidationError

from neuralfield.system.errors import ConfigError

Place = tuple[str | int, ...]
"""Where a value stands: keys and positions from the top."""


class Problems(Exception):
    """Everything that is wrong with the settings, one line each.

    Attributes
    ----------
    errors : list of ConfigError
    """

    def __init__(self, errors: list[ConfigError]) -> None:
        self.errors = errors
        super().__init__("\n".join(str(error) for error in errors))


def validator(schema: Mapping[str, Any]) -> Draft202012Validator:
    """Draft 2020-12, but 2.0 is no whole number, and infinity and NaN are no numbers."""

    def is_integer(_: Any, value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool)

    def is_number(checker: Any, value: Any) -> bool:
        return is_integer(checker, value) or (isinstance(value, float) and math.isfinite(value))

    types = Draft202012Validator.TYPE_CHECKER.redefine_many(
        {"integer": is_integer, "number": is_number}
    )
    return validators.extend(Draft202012Validator, type_checker=types)(schema)


def in_words(
    error: ValidationError,
    schema: Mapping[str, Any],
    name_source: Callable[[Place], str],
    above: Place = (),
    whole: Mapping[str, Any] | None = None,
) -> Iterator[ConfigError]:
    """What jsonschema found, as the user should read it; what was checked stands at `above`.

    `whole` is all that is checked: another place for a key that is unknown here is named by it.
    """
    place: Place = (*above, *error.absolute_path)
    rule: Any = error.schema
    value: Any = error.instance
    if error.validator == "additionalProperties":
        known = list(rule["properties"])
        for key in value:
            if key not in known:
                home = _home(place, key, schema, whole or {})
                yield _unknown_key((*place, key), value[key], known, name_source, home)
    elif error.validator == "required":
        assert isinstance(error.validator_value, list)
        for key in error.validator_value:
            if key not in value:
                missing = resolved(rule["properties"][key], schema)
                where = name_place((*place, key), name_source)
                remedy = missing.get("x-remedy", rule.get("x-remedy", ""))
                yield ConfigError(where, "missing", expectation(missing), remedy)
    elif "propertyNames" in error.absolute_schema_path:
        where = name_place(place, name_source)
        found = f"the name {as_written(value)}"
        yield ConfigError(where, found, rule["x-expected"], rule["x-remedy"])
    else:
        remedy = rule.get("x-remedy", "")
        if error.validator == "enum" and isinstance(value, str):
            remedy = did_you_mean(value, error.validator_value) or remedy
        is_whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e15
        if is_whole and "whole number" in expectation(rule):
            remedy = f"write {value:.0f}"
        yield ConfigError(
            name_place(place, name_source), as_written(value), expectation(rule), remedy
        )


def _unknown_key(
    place: Place, value: Any, known: list[str], name_source: Callable[[Place], str], home: Place
) -> ConfigError:
    guess = did_you_mean(place[-1], known)
    expected = "a key that config.yaml explains" if guess else f"one of {', '.join(known)}"
    source = name_source(place)
    if home:
        expected = f"this key in {'.'.join(map(str, home[:-1]))}"
        guess = f"write {_nested(home, value, on_command_line=source.startswith('--'))}"
    return ConfigError(
        name_place(place, name_source), "unknown key", expected, guess or "remove it"
    )


def _home(place: Place, key: str, schema: Mapping[str, Any], whole: Mapping[str, Any]) -> Place:
    """The place where a key would be known that is unknown at another one; empty if none is."""
    sections = ("training", "render", "timelapse", "evaluate", "edges")
    fields, images = whole.get("fields"), whole.get("images")
    types = {
        name: str(field.get("type"))
        for name, field in (fields.items() if isinstance(fields, Mapping) else ())
        if isinstance(field, Mapping)
    }
    if place[:1] == ("fields",) and len(place) == 2:
        own = schema["$defs"]["training"]["properties"]
        return (*place, "training", key) if key in own and types[place[1]] != "imported" else ()
    if place and place not in {(section,) for section in sections}:
        return ()
    for section in sections:
        if key in schema["$defs"][section]["properties"]:
            return (section, key)
    for name, kind in types.items():
        if key in schema["$defs"].get(kind, {}).get("properties", {}):
            return ("fields", name, key)
    if key in schema["$defs"]["image"]["properties"] and isinstance(images, Mapping) and images:
        return ("images", next(iter(images)), key)
    return ()


def _nested(place: Place, value: Any, *, on_command_line: bool) -> str:
    """A setting as it is written in the config file, or after --config."""
    first, *others = place
    is_plain = isinstance(value, str) and re.fullmatch(r"[\w.-]+", value)
    text = value if is_plain else as_written(value)
    for step in reversed(others):
        text = f"{{{step}: {text}}}"
    return f"'{first}={text}'" if on_command_line else f"{first}: {text}"


def did_you_mean(word: Any, known: Any) -> str:
    """The likeliest of the known names for a misspelt one, as a remedy; empty if none is close."""
    names = [name for name in known if isinstance(name, str)]
    close = difflib.get_close_matches(str(word), names, n=1)
    return f"did you mean {close[0]}?" if close else ""


def expectation(rule: Mapping[str, Any]) -> str:
    """What a rule of the schema asks for."""
    if "x-expected" in rule:
        return rule["x-expected"]
    if "enum" in rule:
        *others, last = (str(choice) for choice in rule["enum"])
        return f"{', '.join(others)} or {last}" if others else last
    return {"boolean": "true or false"}.get(rule.get("type", ""), "another value")


def as_written(value: Any) -> str:
    """A value as it would stand in the config file, on one short line."""
    if isinstance(value, str):
        return repr(value)
    text = yaml.safe_dump(value, default_flow_style=True, width=math.inf).strip()
    text = text.removesuffix("...").strip()
    return text if len(text) <= 60 else f"{text[:57]}..."


def name_place(place: Place, name_source: Callable[[Place], str]) -> str:
    """Where a value stands, as messages begin: ``config.yaml: images.cub.size``."""
    return f"{name_source(place)}: {'.'.join(str(step) for step in place)}"


def by_place(error: ValidationError) -> tuple[str, ...]:
    """What errors are sorted by."""
    return tuple(str(step) for step in error.absolute_path)


def without_repetition(errors: list[ConfigError]) -> list[ConfigError]:
    """One line for each place: a value of the wrong type breaks several rules at once."""
    return list({(error.where, str(error.found)): error for error in errors}.values())


def resolved(rule: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """A rule with what its ``$ref`` points to; what stands beside the ``$ref`` wins."""
    if "$ref" not in rule:
        return rule
    target: Any = schema
    for step in rule["$ref"].removeprefix("#/").split("/"):
        target = target[step]
    return {**resolved(target, schema), **rule}
