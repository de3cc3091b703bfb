"""Rules for which place wins when a setting is written in several, and for unused settings.

Settings are read from layers: config.yaml, then the files that ``--configfile`` names, then
``--config``. A later layer wins over an earlier one, and inside one layer a network's own
``training`` wins over the section ``training``.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from config.config_file import require_keys_once
from config.named_files import ROOT
from config.wording import Place, as_written, name_place
from neuralfield.system.settings import settings_of
from neuralfield.tasks.image.presets import PRESETS, read_preset
from neuralfield.tasks.training_settings import BUDGETS, ImageTraining


class ConfigLayer(NamedTuple):
    """The settings of one source above config.yaml, and the name of that source."""

    name: str
    content: dict[str, Any]


COMMAND_LINE = "--config"

_EXAMPLES_FOLDER = "workflow/resources/"


def read_layers(given: Any) -> list[ConfigLayer]:
    """Return the layers above config.yaml in increasing precedence.

    `given` is Snakemake's ``ConfigSettings``: the config files and the --config values of the
    command line.
    """
    layers = []
    for path in map(Path, given.configfiles):
        require_keys_once(path)
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        layers.append(ConfigLayer(path.name, content if isinstance(content, dict) else {}))
    return [*layers, ConfigLayer(COMMAND_LINE, given.config)]


def adopt_preset(written: dict[str, Any]) -> str | None:
    """Replace the networks listed under ``fields`` by the network of ``preset``, in place.

    The preset's network is the only one that is fitted to each image. Sweeps are removed, because
    they start from the replaced fields. A name that is not in `PRESETS` is kept, so that the schema
    refuses it. The function returns the name of the preset, or None.
    """
    name = written.get("preset")
    if name not in PRESETS:
        return None
    written["fields"] = {name: read_preset(name)}
    for image in _mapping(written.get("images")).values():
        if isinstance(image, dict):
            image.pop("fields", None)
    written.pop("sweeps", None)
    del written["preset"]
    return name


def adopt_budget(written: dict[str, Any], layers: Sequence[ConfigLayer]) -> None:
    """Move a top-level ``budget`` to ``training.budget``, which wins in the same layer.

    A value that is not a number of seconds stays in place, so that the schema refuses it.
    """
    is_later = _last(layers, ("budget",)) > _last(layers, ("training", "budget"))
    for content in (*(layer.content for layer in layers), written):
        seconds, training = content.get("budget", 0), content.get("training", {})
        if type(seconds) not in (int, float) or seconds <= 0 or not isinstance(training, dict):
            continue
        del content["budget"]
        if "budget" not in training or (content is written and is_later):
            content["training"] = training | {"budget": seconds}


def leave_out_examples(written: Mapping[str, Any], layers: Sequence[ConfigLayer]) -> Iterator[str]:
    """Remove the example images if a layer names images: only the named images are intended.

    Images of the user's own config.yaml are kept. Yields a message with the removed examples.
    """
    naming = [layer for layer in layers if _mapping(layer.content.get("images"))]
    named = {str(name) for layer in naming for name in layer.content["images"]}
    images = written.get("images")
    if not naming or not isinstance(images, dict):
        return
    paths = {name: str(_mapping(image).get("path")) for name, image in images.items()}
    examples = [name for name, path in paths.items() if path.startswith(_EXAMPLES_FOLDER)]
    if left_out := [name for name in examples if name not in named]:
        for name in left_out:
            del images[name]
        yield f"{naming[-1].name} names images: the examples {', '.join(left_out)} are left out."


def let_later_layers_win(written: Mapping[str, Any], layers: Sequence[ConfigLayer]) -> None:
    """Remove a network's own training settings that a later layer's section `training` overrides.

    Budgets are removed if a later layer sets the number of steps.
    """
    for name, field in _mapping(written.get("fields")).items():
        own = field.get("training") if isinstance(field, Mapping) else None
        if not isinstance(own, dict):
            continue
        for key in list(own):
            section = _last(layers, ("training", key))
            if section > _last(layers, ("fields", name, "training", key)):
                del own[key]
    places: list[Place] = [("fields", name, "training") for name in _mapping(written.get("fields"))]
    for place in (("training",), *places):
        training = _at(written, place)
        steps = max(_last(layers, ("training", "steps")), _last(layers, (*place, "steps")))
        for key in BUDGETS if isinstance(training, dict) else ():
            if _last(layers, (*place, key)) < steps:
                training.pop(key, None)


def settings_without_effect(
    written: Mapping[str, Any],
    layers: Sequence[ConfigLayer],
    settings: Mapping[str, Any],
    own_keys: Mapping[str, Collection[str]],
    name_source: Callable[[Place], str],
) -> Iterator[str]:
    """Yield a message for each setting without effect: which, why, and what to write instead.

    `written` are the merged settings of all layers after `let_later_layers_win`, and `own_keys` has
    the training settings that each network sets itself, by its name. Networks and values of the
    section `training` that equal those of the workflow's own config.yaml are skipped: that file
    spells out every default, so the user did not write them.
    """
    for taking, taken in (("preset", "fields"), ("preset", "sweeps"), ("image", "images")):
        at = _last(layers, (taken,))
        if at >= 0 and _mapping(layers[at].content[taken]) and _last(layers, (taking,)) >= 0:
            yield (
                f"{layers[at].name}: {taken} has no effect, because {taking} replaces all {taken};"
                " remove one of the two."
            )
    fields, shipped = settings["fields"], shipped_settings()
    used = set(_users(settings, own_keys, ""))
    for name in fields.keys() - used:
        if _mapping(written.get("fields")).get(name) != shipped["fields"].get(name):
            yield (
                f"{name_place(('fields', name), name_source)} has no effect, because no image and"
                " no sweep names this network; add it to the `fields` of an image."
            )
    trainings = [fields[name]["training"] for name in used if "training" in fields[name]]
    for key, value in _mapping(written.get("training")).items():
        if not trainings or value == shipped["training"].get(key):
            continue
        if condition := _unmet_condition(key, trainings):
            reason = f"no network is trained with {condition}"
        elif key == "steps" and all("budget" in training for training in trainings):
            reason = "a budget determines the steps"
        elif not any(_users(settings, own_keys, key)):
            reason = "every network or sweep sets its own value"
        else:
            continue
        where = name_place(("training", key), name_source)
        yield f"{where}: {as_written(value)} has no effect, because {reason}."


def with_shipped_sections(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a workflow that imports this one as a module, completed.

    Missing sections are taken from this workflow's own config.yaml, except its examples.
    """
    examples = ("images", "sweeps", "tables", "classifiers")
    usual = {key: value for key, value in shipped_settings().items() if key not in examples}
    return {**usual, **config}


@cache
def shipped_settings() -> dict[str, Any]:
    """Return the workflow's own config.yaml; callers must not modify the cached value."""
    return yaml.safe_load((ROOT / "config.yaml").read_text("utf-8"))


def _users(
    settings: Mapping[str, Any], own_keys: Mapping[str, Collection[str]], key: str
) -> Iterator[str]:
    """Yield the networks, alone or in a sweep, that use a setting of the section `training`."""
    fields = settings["fields"]

    def takes(name: str) -> bool:
        is_trained = not key or "training" in fields[name]
        return is_trained and key not in own_keys[name]

    for image in settings["images"].values():
        yield from filter(takes, image.get("fields", fields))
    for sweep in settings["sweeps"].values():
        if key not in sweep["vary"] and f"training.{key}" not in sweep["vary"]:
            yield from (name for name in sweep["fields"] if name in fields and takes(name))


def _unmet_condition(key: str, trainings: Sequence[Mapping[str, Any]]) -> str:
    """Return an unmet condition for `key` to have an effect: another setting, and its values."""
    declared = settings_of(ImageTraining).get(key)
    for other, wanted in declared.only_with.items() if declared else ():
        if not any(training[other] in wanted for training in trainings):
            return f"{other}: {' or '.join(wanted)}"
    return ""


def _last(layers: Sequence[ConfigLayer], place: Place) -> int:
    """Return the index of the last layer that sets a value; -1 if no layer does."""
    for number in range(len(layers) - 1, -1, -1):
        if _at(layers[number].content, place) is not None:
            return number
    return -1


def _at(content: Any, place: Place) -> Any:
    for step in place:
        content = content.get(step) if isinstance(content, Mapping) else None
    return content


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
