"""Conversion of config.yaml and the command line into complete, validated settings."""

import os
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from config import large_images
from config.image_sizes import too_large_images, too_large_renders
from config.named_files import find_file, find_folder, missing_file, result_of_itself
from config.own_image import TAKEN_NAMES, adopt_own_image
from config.precedence import (
    adopt_budget,
    adopt_preset,
    leave_out_examples,
    let_the_command_line_win,
    settings_without_effect,
    usual_networks,
)
from config.schema import CODING_USES, OTHER_KINDS, read_schema, with_defaults
from config.sources import COMMAND_LINE, ONE_FILE, Sources, WhereIs
from config.task_settings import classifier_complaints, outside_their_limits, table_complaints
from config.wording import Problems, as_written, mistakes_in
from neuralfield.fields import suggested_learning_rate
from neuralfield.system.durations import seconds_of
from neuralfield.system.errors import ConfigError, did_you_mean
from neuralfield.system.settings import AUTO
from neuralfield.tasks.training_settings import BUDGETS

TEXT_KEYS = (
    *("image", "images", "name", "path", "field", "fields"),
    *("inputs", "targets", "truth", "about", "checksums"),
)
"""Keys whose text is not converted to a number: '2024' may be the name of a file."""

NAMING_KEYS = ("images", "fields", "crops", "sweeps", "tables", "classifiers")
"""Sections whose keys are names. A name without settings is kept, so that the check of the schema
reports what is missing."""


class ImageNetwork(NamedTuple):
    """A network that is fitted to an image."""

    image: str
    field: str


def read_settings(config: Mapping[str, Any], sources: Sources = ONE_FILE) -> dict[str, Any]:
    """Check the settings that the user wrote and fill in the defaults.

    `config` is Snakemake's merged configuration of the config file and the command line. If the
    command line sets a value in the section `training`, it wins over the settings of single
    networks in the file.

    The returned sections are in the schema's order, so that moving lines in config.yaml changes
    nothing. Paths are those of the files that were found; the `training` of a field is the section
    `training` updated with the field's own settings; ``sweeps`` are as written, see
    `sweeps.expand`. The result also has ``automatic_learning_rates``, the fields whose learning
    rate was chosen automatically, and ``notes``, messages to the user about automatic choices and
    about settings that have no effect.
    """
    errors = [
        ConfigError(
            f"{COMMAND_LINE}: {key}", "nothing", "a value after the =", f"write {key}=VALUE"
        )
        for key, value in sources.given.items()
        if value is None
    ]
    written, given = _tidied(config), _tidied(sources.given)
    notes: list[str] = []
    own_image, preset = written.get("image"), adopt_preset(written)
    sources = Sources(sources.file, given, has_own_image=bool(own_image))
    errors += adopt_own_image(written, sources, preset is not None, notes)
    notes += [] if own_image else leave_out_examples(written, sources)
    adopt_budget(written, given)
    written |= {key: given[key] for key in ("target",) if key in given}  # in place of the file's
    let_the_command_line_win(written, sources)
    completed = written | usual_networks(written)
    errors += mistakes_in(completed, read_schema(), sources.where, whole=completed)
    if errors:
        raise Problems(errors)
    settings = with_defaults(completed, read_schema())
    own_keys = {name: set(field.get("training", ())) for name, field in settings["fields"].items()}
    _resolve(settings)
    if errors := list(_disagreements(settings, own_keys, sources.where)):
        raise Problems(errors)
    notes += settings_without_effect(written, settings, own_keys, sources)
    own_name = own_image and next(iter(settings["images"]))
    return settings | {"notes": notes, "own_image": own_name, "named_preset": preset}


def _resolve(settings: dict[str, Any]) -> None:
    """Resolve paths, overlaps of tiles, and the training settings of networks, in place.

    Nothing is checked; the path of a missing file stays as it is written.
    """
    for section in ("images", "tables", "classifiers", "fields"):
        find = find_folder if section == "classifiers" else find_file
        for thing in settings[section].values():
            if "path" in thing:
                thing["path"] = os.fspath(find(thing["path"]) or thing["path"])
    for image in settings["images"].values():
        if "tiles" in image:
            size_px = image["tiles"]["size"]
            image["tiles"].setdefault("overlap", large_images.usual_overlap_px(size_px))
    for field in settings["fields"].values():
        if field["type"] == "latents":
            field.setdefault("target", settings["target"])
            training = settings["training"] | field.get("training", {})
            field["training"] = {key: training[key] for key in CODING_USES if key in training}
    settings["automatic_learning_rates"] = []
    for name in trained_fields(settings):
        field = settings["fields"][name]
        field["training"] = settings["training"] | field.get("training", {})
        if field["training"]["learning_rate"] == AUTO:
            field["training"]["learning_rate"] = suggested_learning_rate(field)
            settings["automatic_learning_rates"].append(name)


def runs(settings: Mapping[str, Any]) -> list[ImageNetwork]:
    """Return every network of every image in the order of the config, without those of sweeps."""
    return [
        ImageNetwork(name, field)
        for name, image in settings["images"].items()
        for field in image.get("fields", settings["fields"])
    ]


def trained_fields(settings: Mapping[str, Any]) -> list[str]:
    """Return the names of the networks that are trained here and rendered at any size."""
    return [name for name, f in settings["fields"].items() if f["type"] not in OTHER_KINDS]


def _tidied(value: Any, key: str = "") -> Any:
    """Return a value without empty keys, with keys as text and with numeric text as numbers.

    YAML reads 1e-4 as text, and Snakemake's --config reads everything inside braces as text. Times
    like 30m are converted to seconds.
    """
    if isinstance(value, Mapping):
        return {
            # a checksum may consist of digits only, and has to stay text
            str(k): {} if v is None else _tidied(v, key if key == "checksums" else str(k))
            for k, v in value.items()
            if v is not None or key in NAMING_KEYS
        }
    if isinstance(value, list | tuple):
        return [_tidied(item, key) for item in value]
    if isinstance(value, str) and key not in TEXT_KEYS:
        if value in ("true", "True", "false", "False"):
            return value.lower() == "true"
        seconds = seconds_of(value) if key.removeprefix("training.") in BUDGETS else None
        if seconds is not None:
            return seconds
        for number in (int, float):
            try:
                return number(value)
            except ValueError:
                pass
    return value


def _disagreements(
    settings: Mapping[str, Any], own_keys: Mapping[str, Collection[str]], where_is: WhereIs
) -> Iterator[ConfigError]:
    """Yield errors that involve several keys, and errors of missing files.

    `own_keys` has the training settings that each network sets itself, by the network's name.
    """
    for name, image in settings["images"].items():
        if name.lower() in TAKEN_NAMES:
            expected = f"another name: results/{name.lower()} is reserved for {name.lower()}"
            yield ConfigError(where_is(("images",)), f"the name {name!r}", expected, "rename it")
        where = where_is(("images", name, "path"))
        if not (missing := list(missing_file(image["path"], where, "an image"))):
            yield from result_of_itself(image["path"], f"results/{name}", where)
            yield from large_images.complaints(name, settings, where_is)
        yield from missing
        for index, field in enumerate(image.get("fields", ())):
            if field not in settings["fields"]:
                guess = did_you_mean(field, settings["fields"])
                expected = f"one of the fields: {', '.join(settings['fields'])}"
                where = where_is(("images", name, "fields", index))
                yield ConfigError(where, repr(field), expected, guess)
    if not runs(settings) and not settings["sweeps"]:
        expected = "at least one image with a network"
        yield ConfigError(where_is(("images",)), "all fields: []", expected)
    for name, field in settings["fields"].items():
        if field["type"] == "imported":
            where = where_is(("fields", name, "path"))
            yield from missing_file(field["path"], where, "a model.json")
        elif field["type"] not in OTHER_KINDS:
            place = partial(_training_place, name, own_keys[name], where_is)
            yield from outside_their_limits(field["training"], place)
    for name in settings["tables"]:
        yield from table_complaints(name, settings, where_is)
    for name in settings["classifiers"]:
        yield from classifier_complaints(name, settings, where_is)
    for name, crop in settings["render"]["crops"].items():
        left, top, right, bottom = crop["box"]
        if not (left < right and top < bottom):
            where = where_is(("render", "crops", name, "box"))
            expected = "[left, top, right, bottom] with left < right and top < bottom"
            yield ConfigError(where, as_written(crop["box"]), expected)
            return
    yield from too_large_images(settings, where_is)
    yield from too_large_renders(settings, where_is)


def _training_place(
    name: str, own_keys: Collection[str], where_is: WhereIs, key: str, limit_key: str
) -> str:
    """Return the place of a training setting: below the network, or in the section `training`."""
    is_own = key in own_keys or limit_key in own_keys
    return where_is(("fields", name, "training", key) if is_own else ("training", key))
