"""From what config.yaml and the command line say to settings that the rules can rely on."""

import copy
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from config import classifier_settings, large_images, table_settings
from config.config_file import require_keys_once
from config.image_sizes import too_large_renders
from config.named_files import require_file
from config.own_image import TAKEN_NAMES, adopt_own_image, name_source_beside_image
from config.precedence import COMMAND_LINE, Layer, let_later_layers_win, settings_without_effect
from config.presets import adopt_preset
from config.training_limits import outside_their_limits
from config.wording import (
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
from neuralfield.fields import network_settings
from neuralfield.system.errors import ConfigError

SCHEMA_PATH = Path(__file__).with_name("config.schema.yaml")

TEXT_KEYS = (
    *("image", "images", "name", "path", "field", "fields"),
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


class Run(NamedTuple):
    """One network taught one picture."""

    image: str
    field: str


def read_settings(
    config: Mapping[str, Any],
    name_source: Callable[[Place], str],
    layers: Sequence[Layer] = (),
) -> dict[str, Any]:
    """Check what the user wrote and fill in the rest.

    Parameters
    ----------
    config : mapping
        What config.yaml and the command line say together.
    name_source : callable
        Says which of the two a place comes from, for messages.
    layers : sequence of Layer
        What the command line says, see `precedence.read_layers`. The section `training` of a layer
        wins over what earlier ones say of single networks.

    Returns
    -------
    dict
        ``images`` (each with its path as found and the fields it is for), ``fields`` (each with
        all of its settings; `training` there is the section `training` with the field's own
        changes), ``sweeps`` (as they are written, see `sweeps.expand`), ``tables`` (each with
        all of its settings), ``classifiers`` (the same), ``training``, ``render``, ``timelapse``,
        ``evaluate``, ``edges``, ``gpu_share`` and ``max_megapixels``;
        ``automatic_learning_rates``, the fields whose learning rate is what suits them; and
        ``notes``, lines for the user on what was chosen and on settings that have no effect.
        Settings are in the schema's order, so that moving lines in config.yaml changes nothing.

    Raises
    ------
    Problems
    """
    schema = read_schema()
    written = _tidied(config)
    assert isinstance(written, dict)
    errors = [
        ConfigError(f"{layer.name}: {key}", "nothing", "a value after the =", f"write {key}=VALUE")
        for layer in layers
        if layer.name == COMMAND_LINE
        for key, value in layer.content.items()
        if value is None
    ]
    layers = [Layer(layer.name, _tidied(layer.content)) for layer in layers]
    notes: list[str] = []
    own_image, has_preset = written.get("image"), adopt_preset(written)
    errors += list(adopt_own_image(written, layers, name_source, has_preset, notes))
    if own_image:
        name_source = name_source_beside_image(name_source)
    let_later_layers_win(written, layers)
    for error in sorted(validator(schema).iter_errors(written), key=by_place):
        errors += in_words(error, schema, name_source, whole=written)
    if errors:
        raise Problems(without_repetition(errors))
    settings = _with_defaults(written, schema, schema)
    errors = list(_disagreements(settings, name_source))
    if errors:
        raise Problems(errors)
    own_keys = {name: set(field.get("training", ())) for name, field in settings["fields"].items()}
    settings["automatic_learning_rates"] = []
    for name in trained_fields(settings):
        field = settings["fields"][name]
        if _written_training(name, settings)["learning_rate"] == AUTO:
            settings["automatic_learning_rates"].append(name)
        field["training"] = _training_of(name, settings)
    notes += settings_without_effect(written, layers, settings, own_keys, name_source)
    return settings | {"notes": notes, "own_image": own_image and next(iter(settings["images"]))}


@cache
def read_schema() -> dict[str, Any]:
    """Return what config.yaml may hold; nobody changes it."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast
    return yaml.load(SCHEMA_PATH.read_text(encoding="utf-8"), loader)


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
        require_keys_once(Path(path))
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
            yield from large_images.complaints(name, settings, where_is)
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
            return
    yield from too_large_renders(settings, partial(name_place, name_source=name_source))


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
