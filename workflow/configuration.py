"""From what config.yaml and the command line say to settings that the rules can rely on."""

import copy
import difflib
import math
import os
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import ValidationError

import large_pictures
from neuralfield.errors import ConfigError

SCHEMA_PATH = Path(__file__).parent / "schemas" / "config.schema.yaml"
ROOT = Path(__file__).parent.parent

OWN_PICTURE_SIZE_PX = 256
"""Longer side that a picture given by ``image=`` is reduced to, if it is larger."""

TEXT_KEYS = ("image", "path", "fields")
"""Keys whose text stays text even where it looks like a number: '2024' is a file's name."""

NAMING_KEYS = ("images", "fields", "crops")
"""Keys whose own keys are names: one without settings lacks something, and is not left out."""

Place = tuple[str | int, ...]
"""Where a value stands: keys and positions from the top."""


class Run(NamedTuple):
    """One network taught one picture."""

    image: str
    field: str


class Problems(Exception):
    """Everything that is wrong with the settings, one line each.

    Attributes
    ----------
    errors : list of ConfigError
    """

    def __init__(self, errors: list[ConfigError]) -> None:
        self.errors = errors
        super().__init__("\n".join(str(error) for error in errors))


def read_settings(config: Mapping[str, Any], name_source: Callable[[Place], str]) -> dict[str, Any]:
    """Check what the user wrote and fill in the rest.

    Parameters
    ----------
    config : mapping
        What config.yaml and the command line say together.
    name_source : callable
        Says which of the two a place comes from, for messages.

    Returns
    -------
    dict
        ``images`` (each with its path as found and the fields it is for), ``fields`` (each with
        all of its settings; `training` there is the section `training` with the field's own
        changes), ``training``, ``render``, ``timelapse``, ``evaluate``, ``gpu_share`` and
        ``max_megapixels``.
        Settings are in the schema's order, so that moving lines in config.yaml changes nothing.

    Raises
    ------
    Problems
    """
    schema = yaml.safe_load(SCHEMA_PATH.read_text(encoding="utf-8"))
    written = _tidied(config)
    assert isinstance(written, dict)
    errors = list(_adopt_own_picture(written, name_source))
    for error in sorted(_validator(schema).iter_errors(written), key=_order):
        errors += _in_words(error, schema, name_source)
    if errors:
        raise Problems(_without_repetition(errors))
    settings = _with_defaults(written, schema, schema)
    errors = list(_disagreements(settings, name_source))
    if errors:
        raise Problems(errors)
    for name in trained_fields(settings):
        field = settings["fields"][name]
        field["training"] = settings["training"] | field.get("training", {})
    return settings


def runs(settings: Mapping[str, Any]) -> list[Run]:
    """Every network of every picture, in the order of the config's names."""
    return [
        Run(name, field)
        for name, image in settings["images"].items()
        for field in image.get("fields", settings["fields"])
    ]


def trained_fields(settings: Mapping[str, Any]) -> list[str]:
    """Names of the networks that are taught here, not brought along."""
    return [name for name, field in settings["fields"].items() if field["type"] != "imported"]


def source_namer(given: Any) -> Callable[[Place], str]:
    """A function that says where a setting was written, for messages.

    Parameters
    ----------
    given : snakemake.settings.types.ConfigSettings
        The config files and the --config values of the command line.
    """
    sources = [("--config", given.config)]
    for path in reversed(given.configfiles):
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        sources.append((Path(path).name, content))

    def name_source(place: Place) -> str:
        # a key that is missing was forgotten where its neighbours were written
        for wanted in (place, place[:-1]):
            for name, content in sources:
                if wanted and _holds(content, wanted):
                    return name
        return "config.yaml"

    return name_source


def _holds(content: Any, place: Place) -> bool:
    for step in place:
        try:
            content = content[step]
        except (KeyError, IndexError, TypeError):
            return False
    return True


def slug(text: str) -> str:
    """A short plain name for a folder: ``'Mein Löwe (2)'`` becomes ``'mein-lowe-2'``."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9_]+", "-", plain).strip("-_").lower()[:64] or "picture"


def find_file(path: str) -> Path | None:
    """A file as the user wrote it, or else beside the Snakefile; None where there is none."""
    given = Path(path).expanduser()
    return next((place for place in (given, ROOT / given) if place.is_file()), None)


def _tidied(value: Any, key: str = "") -> Any:
    """The same without empty keys, with text keys, and with numbers where text spells one.

    YAML reads 1e-4 as text, and Snakemake's --config reads everything inside braces as text.
    """
    if isinstance(value, Mapping):
        return {
            str(k): {} if v is None else _tidied(v, str(k))
            for k, v in value.items()
            if v is not None or key in NAMING_KEYS
        }
    if isinstance(value, list | tuple):
        return [_tidied(item, key) for item in value]
    if isinstance(value, str) and key not in TEXT_KEYS:
        if value in ("true", "True", "false", "False"):
            return value.lower() == "true"
        for number in (int, float):
            try:
                return number(value)
            except ValueError:
                pass
    return value


def _adopt_own_picture(
    written: dict[str, Any], name_source: Callable[[Place], str]
) -> Iterator[ConfigError]:
    """Put the picture given by ``image`` in place of the pictures listed under ``images``."""
    path = written.get("image")
    if not isinstance(path, str) or not path:
        return
    image: dict[str, Any] = {"path": path}
    where = _where(("image",), name_source)
    try:
        if _longer_side_px(_require_file(path, where, "a picture"), where) > OWN_PICTURE_SIZE_PX:
            image["size"] = OWN_PICTURE_SIZE_PX
    except ConfigError as error:
        yield error
    written["images"] = {slug(Path(path).stem): image}
    del written["image"]


def _longer_side_px(path: Path, where: str) -> int:
    """Read from the file's first bytes; the picture itself stays closed."""
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None  # `max_megapixels` is the limit, where pictures are read
    try:
        with Image.open(path) as picture:
            return max(picture.size)
    except OSError as error:
        found, expected = f"{path} cannot be read as a picture", "a PNG, JPEG, WebP, TIFF or alike"
        raise ConfigError(where, found, expected) from error


def _require_file(path: str, where: str, what: str) -> Path:
    found = find_file(path)
    if found is None:
        state = "is a folder" if Path(path).expanduser().is_dir() else "no such file"
        raise ConfigError(
            where,
            f"{path}: {state}",
            f"the path of {what}",
            f"write it relative to the working directory, {Path.cwd()}",
        )
    return found


def _validator(schema: Mapping[str, Any]) -> Draft202012Validator:
    """Draft 2020-12, but 2.0 is no whole number, and infinity and NaN are no numbers."""

    def is_integer(_: Any, value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool)

    def is_number(checker: Any, value: Any) -> bool:
        return is_integer(checker, value) or (isinstance(value, float) and math.isfinite(value))

    types = Draft202012Validator.TYPE_CHECKER.redefine_many(
        {"integer": is_integer, "number": is_number}
    )
    return validators.extend(Draft202012Validator, type_checker=types)(schema)


def _in_words(
    error: ValidationError, schema: Mapping[str, Any], name_source: Callable[[Place], str]
) -> Iterator[ConfigError]:
    """What jsonschema found, as the user should read it."""
    place: Place = tuple(error.absolute_path)
    rule: Any = error.schema
    value: Any = error.instance
    if error.validator == "additionalProperties":
        known = list(rule["properties"])
        for key in value:
            if key not in known:
                yield _unknown_key((*place, key), known, name_source)
    elif error.validator == "required":
        assert isinstance(error.validator_value, list)
        for key in error.validator_value:
            if key not in value:
                missing = _resolved(rule["properties"][key], schema)
                where = _where((*place, key), name_source)
                remedy = missing.get("x-remedy", rule.get("x-remedy", ""))
                yield ConfigError(where, "missing", _expected(missing), remedy)
    elif "propertyNames" in error.absolute_schema_path:
        where = _where(place, name_source)
        found = f"the name {_shown(value)}"
        yield ConfigError(where, found, rule["x-expected"], rule["x-remedy"])
    else:
        remedy = rule.get("x-remedy", "")
        if error.validator == "enum" and isinstance(value, str):
            remedy = _did_you_mean(value, error.validator_value) or remedy
        yield ConfigError(_where(place, name_source), _shown(value), _expected(rule), remedy)


def _unknown_key(
    place: Place, known: list[str], name_source: Callable[[Place], str]
) -> ConfigError:
    guess = _did_you_mean(place[-1], known)
    expected = "a key that config.yaml explains" if guess else f"one of {', '.join(known)}"
    return ConfigError(_where(place, name_source), "unknown key", expected, guess or "remove it")


def _did_you_mean(word: Any, known: Any) -> str:
    names = [name for name in known if isinstance(name, str)]
    close = difflib.get_close_matches(str(word), names, n=1)
    return f"did you mean {close[0]}?" if close else ""


def _expected(rule: Mapping[str, Any]) -> str:
    if "x-expected" in rule:
        return rule["x-expected"]
    if "enum" in rule:
        *others, last = (str(choice) for choice in rule["enum"])
        return f"{', '.join(others)} or {last}" if others else last
    return {"boolean": "true or false"}.get(rule.get("type", ""), "another value")


def _shown(value: Any) -> str:
    """A value as it would stand in the config file, on one short line."""
    if isinstance(value, str):
        return repr(value)
    text = yaml.safe_dump(value, default_flow_style=True, width=math.inf).strip()
    text = text.removesuffix("...").strip()
    return text if len(text) <= 60 else f"{text[:57]}..."


def _where(place: Place, name_source: Callable[[Place], str]) -> str:
    return f"{name_source(place)}: {'.'.join(str(step) for step in place)}"


def _order(error: ValidationError) -> tuple[str, ...]:
    return tuple(str(step) for step in error.absolute_path)


def _without_repetition(errors: list[ConfigError]) -> list[ConfigError]:
    """One line for each place: a value of the wrong type breaks several rules at once."""
    return list({(error.where, str(error.found)): error for error in errors}.values())


def _resolved(rule: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """A rule with what its ``$ref`` points to; what stands beside the ``$ref`` wins."""
    if "$ref" not in rule:
        return rule
    name = rule["$ref"].removeprefix("#/$defs/")
    return {**_resolved(schema["$defs"][name], schema), **rule}


def _with_defaults(value: Any, rule: Mapping[str, Any], schema: Mapping[str, Any]) -> Any:
    """A copy of a valid value in which every key that has a default is there."""
    if not isinstance(value, Mapping):
        return copy.deepcopy(value)
    rule = _resolved(rule, schema)
    if "allOf" in rule:  # a network: its rules are those of its type
        rule = schema["$defs"][value["type"]]
        if "preset" in value:  # a preset has defaults of its own
            return {key: copy.deepcopy(value[key]) for key in rule["properties"] if key in value}
    filled = {}
    properties, others = rule.get("properties", {}), rule.get("additionalProperties")
    for key in [*properties, *(key for key in value if key not in properties)]:
        own = _resolved(properties.get(key, others), schema)
        if key == "training" and rule is not schema:  # changes of one network, not a section
            filled |= {key: copy.deepcopy(value[key])} if key in value else {}
        elif key in value:
            filled[key] = _with_defaults(value[key], own, schema)
        elif "default" in own:
            filled[key] = _with_defaults(own["default"], own, schema)
    return filled


def _disagreements(
    settings: Mapping[str, Any], name_source: Callable[[Place], str]
) -> Iterator[ConfigError]:
    """What no single key is to blame for, and files that are not there."""
    for name, image in settings["images"].items():
        place: Place = ("images", name)
        try:
            found = _require_file(image["path"], _where((*place, "path"), name_source), "a picture")
            image["path"] = os.fspath(found)
            where_is = partial(_where, name_source=name_source)
            yield from large_pictures.complaints(name, settings, where_is)
        except ConfigError as error:
            yield error
        for index, field in enumerate(image.get("fields", ())):
            if field not in settings["fields"]:
                guess = _did_you_mean(field, settings["fields"])
                expected = f"one of the fields: {', '.join(settings['fields'])}"
                where = _where((*place, "fields", index), name_source)
                yield ConfigError(where, repr(field), expected, guess)
    for name, field in settings["fields"].items():
        if field["type"] == "imported":
            where = _where(("fields", name, "path"), name_source)
            try:
                field["path"] = os.fspath(_require_file(field["path"], where, "a model.json"))
            except ConfigError as error:
                yield error
        else:
            yield from _training_disagreements(name, settings, name_source)
    for name, crop in settings["render"]["crops"].items():
        left, top, right, bottom = crop["box"]
        if not (left < right and top < bottom):
            where = _where(("render", "crops", name, "box"), name_source)
            expected = "[left, top, right, bottom] with left < right and top < bottom"
            yield ConfigError(where, _shown(crop["box"]), expected)


def _training_disagreements(
    name: str, settings: Mapping[str, Any], name_source: Callable[[Place], str]
) -> Iterator[ConfigError]:
    own = settings["fields"][name].get("training", {})
    training = settings["training"] | own
    for key, limit_key in (
        ("minimum_learning_rate", "learning_rate"),
        ("segments", "steps"),
        ("warmup_steps", "steps"),
        ("time_margin_s", "time_limit_s"),
    ):
        if training[key] > training.get(limit_key, math.inf):
            changed = key in own or limit_key in own
            place: Place = ("fields", name, "training", key) if changed else ("training", key)
            yield ConfigError(
                _where(place, name_source),
                _shown(training[key]),
                f"at most {limit_key}, which is {training[limit_key]:g}",
            )
