"""From what config.yaml and the command line say to settings that the rules can rely on."""

import copy
import os
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import yaml

import classifier_settings
import large_pictures
import table_settings
from named_files import require_file
from neuralfield.errors import ConfigError, InputError
from neuralfield.fields import network_settings
from presets import adopt_preset
from training_limits import outside_their_limits
from wording import (
    Place,
    Problems,
    as_written,
    by_place,
    did_you_mean,
    in_words,
    name_place,
    resolved,
    validator,
    without_repetition,
)

SCHEMA_PATH = Path(__file__).parent / "schemas" / "config.schema.yaml"

OWN_PICTURE_SIZE_PX = 256
"""Longer side that a picture given by ``image=`` is reduced to, if it is larger."""

TEXT_KEYS = (
    *("image", "images", "path", "field", "fields"),
    *("inputs", "targets", "truth", "about", "checksums"),
)
"""Keys whose text stays text even where it looks like a number: '2024' is a file's name."""

AUTO = "auto"
"""A learning rate that nobody chose."""

NAMING_KEYS = ("images", "fields", "crops", "sweeps", "tables", "classifiers")
"""Keys whose own keys are names: one without settings lacks something, and is not left out."""

MAKES_NO_DIFFERENCE = (
    *("threads", "checkpoint_interval_s"),
    *("time_limit_s", "time_margin_s", "max_temperature_celsius"),
)
"""Settings of a training that its result does not depend on."""


TAKEN_NAMES = ("tables", "classifiers")
"""Folders in results/ that are no picture's."""


class Run(NamedTuple):
    """One network taught one picture."""

    image: str
    field: str


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
        changes), ``sweeps`` (as they are written, see `sweeps.expand`), ``tables`` (each with
        all of its settings), ``classifiers`` (the same), ``training``, ``render``, ``timelapse``,
        ``evaluate``, ``edges``, ``gpu_share`` and ``max_megapixels``; and
        ``automatic_learning_rates``, the fields whose learning rate is what suits them.
        Settings are in the schema's order, so that moving lines in config.yaml changes nothing.

    Raises
    ------
    Problems
    """
    schema = read_schema()
    written = _tidied(config)
    assert isinstance(written, dict)
    adopt_preset(written)
    errors = list(_adopt_own_picture(written, name_source))
    for error in sorted(validator(schema).iter_errors(written), key=by_place):
        errors += in_words(error, schema, name_source)
    if errors:
        raise Problems(without_repetition(errors))
    settings = _with_defaults(written, schema, schema)
    errors = list(_disagreements(settings, name_source))
    if errors:
        raise Problems(errors)
    settings["automatic_learning_rates"] = []
    for name in trained_fields(settings):
        field = settings["fields"][name]
        if _written_training(name, settings)["learning_rate"] == AUTO:
            settings["automatic_learning_rates"].append(name)
        field["training"] = _training_of(name, settings)
    return settings


def read_schema() -> dict[str, Any]:
    """What config.yaml may hold."""
    return yaml.safe_load(SCHEMA_PATH.read_text(encoding="utf-8"))


def _written_training(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The section `training` with a network's own changes."""
    return settings["training"] | settings["fields"][name].get("training", {})


def _training_of(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """How a network is trained, with a learning rate that is a number."""
    training = _written_training(name, settings)
    if training["learning_rate"] == AUTO:
        training["learning_rate"] = suggested_learning_rate(settings["fields"][name])
    return training


def suggested_learning_rate(field: Mapping[str, Any]) -> float:
    """What suits a network: it may depend on all of its settings."""
    description = {key: value for key, value in field.items() if key not in ("training", "output")}
    return network_settings(description).suggested_learning_rate


def runs(settings: Mapping[str, Any]) -> list[Run]:
    """Every network of every picture, in the order of the config's names, without sweeps."""
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


def _tidied(value: Any, key: str = "") -> Any:
    """The same without empty keys, with text keys, and with numbers where text spells one.

    YAML reads 1e-4 as text, and Snakemake's --config reads everything inside braces as text.
    """
    if isinstance(value, Mapping):
        return {
            # in a checksum there may be nothing but digits
            str(k): {} if v is None else _tidied(v, key if key == "checksums" else str(k))
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
    where = name_place(("image",), name_source)
    try:
        if _longer_side_px(require_file(path, where, "a picture"), where) > OWN_PICTURE_SIZE_PX:
            image["size"] = OWN_PICTURE_SIZE_PX
    except ConfigError as error:
        yield error
    name = slug(Path(path).stem)
    written["images"] = {f"{name}-picture" if name in TAKEN_NAMES else name: image}
    del written["image"]
    sweeps = written.get("sweeps")
    for sweep in sweeps.values() if isinstance(sweeps, Mapping) else ():
        _forget_images(sweep)


def _forget_images(sweep: Any) -> None:
    """Let a sweep run over whatever pictures there are."""
    if not isinstance(sweep, dict):
        return
    sweep.pop("images", None)
    for key in ("exclude", "include"):
        if isinstance(sweep.get(key), list):
            sweep[key] = [entry for entry in sweep[key] if "image" not in entry]


def _longer_side_px(path: Path, where: str) -> int:
    """Read from the file's first bytes; the picture itself stays closed."""
    from neuralfield.images.reading import picture_size

    try:
        return max(picture_size(path))
    except InputError as error:
        raise ConfigError(where, f"{path} {error.found}", error.expected, error.remedy) from error


def _with_defaults(value: Any, rule: Mapping[str, Any], schema: Mapping[str, Any]) -> Any:
    """A copy of a valid value in which every key that has a default is there."""
    if not isinstance(value, Mapping):
        return copy.deepcopy(value)
    rule = resolved(rule, schema)
    if "allOf" in rule:  # a network: its rules are those of its type
        rule = schema["$defs"][value["type"]]
        if "preset" in value:  # a preset has defaults of its own
            return {key: copy.deepcopy(value[key]) for key in rule["properties"] if key in value}
    filled = {}
    properties, others = rule.get("properties", {}), rule.get("additionalProperties")
    for key in [*properties, *(key for key in value if key not in properties)]:
        own = resolved(properties.get(key, others), schema)
        if key == "training" and rule is not schema and "default" not in properties[key]:
            # changes of one network, not a section
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
        if name.lower() in TAKEN_NAMES:
            expected = f"another name: results/{name.lower()} is for {name.lower()}"
            where = name_place(("images",), name_source)
            yield ConfigError(where, f"the name {name!r}", expected, "rename it")
        try:
            found = require_file(
                image["path"], name_place((*place, "path"), name_source), "a picture"
            )
            image["path"] = os.fspath(found)
            where_is = partial(name_place, name_source=name_source)
            yield from large_pictures.complaints(name, settings, where_is)
        except ConfigError as error:
            yield error
        for index, field in enumerate(image.get("fields", ())):
            if field not in settings["fields"]:
                guess = did_you_mean(field, settings["fields"])
                expected = f"one of the fields: {', '.join(settings['fields'])}"
                where = name_place((*place, "fields", index), name_source)
                yield ConfigError(where, repr(field), expected, guess)
    if not runs(settings) and not settings["sweeps"]:
        expected = "a picture that a network is taught"
        yield ConfigError(name_place(("images",), name_source), "all fields: []", expected)
    for name, field in settings["fields"].items():
        if field["type"] == "imported":
            where = name_place(("fields", name, "path"), name_source)
            try:
                field["path"] = os.fspath(require_file(field["path"], where, "a model.json"))
            except ConfigError as error:
                yield error
        else:
            yield from training_disagreements(name, settings, name_source)
    for name in settings["tables"]:
        yield from table_settings.complaints(
            name, settings, partial(name_place, name_source=name_source)
        )
    for name in settings["classifiers"]:
        yield from classifier_settings.complaints(
            name, settings, partial(name_place, name_source=name_source)
        )
    for name, crop in settings["render"]["crops"].items():
        left, top, right, bottom = crop["box"]
        if not (left < right and top < bottom):
            where = name_place(("render", "crops", name, "box"), name_source)
            expected = "[left, top, right, bottom] with left < right and top < bottom"
            yield ConfigError(where, as_written(crop["box"]), expected)


def training_disagreements(
    name: str, settings: Mapping[str, Any], name_source: Callable[[Place], str]
) -> Iterator[ConfigError]:
    """What is wrong between the settings of one network's training."""
    own = settings["fields"][name].get("training", {})
    training = _training_of(name, settings)

    def where(key: str, limit_key: str) -> str:
        changed = key in own or limit_key in own
        place: Place = ("fields", name, "training", key) if changed else ("training", key)
        return name_place(place, name_source)

    yield from outside_their_limits(training, where)
