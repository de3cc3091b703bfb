"""Rules for which setting wins if several places write it, and messages about unused settings.

The command line (``--config`` and ``--configfile``) wins over the config file. Inside each of the
two, a network's own ``training`` wins over the section ``training``.
"""

import copy
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from config.schema import CODING_USES, OTHER_KINDS, read_schema
from config.sources import COMMAND_LINE, Sources, at, mapping
from config.wording import as_written
from neuralfield.tasks.image.presets import PRESETS, read_preset
from neuralfield.tasks.training_settings import BUDGETS

_EXAMPLES_FOLDER = "workflow/resources/"


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
    for image in mapping(written.get("images")).values():
        if isinstance(image, dict):
            image.pop("fields", None)
    written.pop("sweeps", None)
    del written["preset"]
    return name


def adopt_budget(written: dict[str, Any], given: dict[str, Any]) -> None:
    """Move a top-level ``budget`` to ``training.budget``, which wins over it in the same source.

    A value that is not a number of seconds stays in place, so that the schema refuses it.
    """
    is_later = "budget" in given and at(given, ("training", "budget")) is None
    for content in (given, written):
        seconds, training = content.get("budget", 0), content.get("training", {})
        if type(seconds) not in (int, float) or seconds <= 0 or not isinstance(training, dict):
            continue
        del content["budget"]
        if "budget" not in training or (content is written and is_later):
            content["training"] = training | {"budget": seconds}


def leave_out_examples(written: Mapping[str, Any], sources: Sources) -> Iterator[str]:
    """Remove the example images if the command line names images: only those are intended.

    Images of the user's own config file are kept. Yields a message with the removed examples.
    """
    named = mapping(sources.given.get("images"))
    images = written.get("images")
    if not named or not isinstance(images, dict):
        return
    paths = {name: str(mapping(image).get("path")) for name, image in images.items()}
    examples = [name for name, path in paths.items() if path.startswith(_EXAMPLES_FOLDER)]
    if left_out := [name for name in examples if name not in named]:
        for name in left_out:
            del images[name]
        yield f"{COMMAND_LINE} names images: the examples {', '.join(left_out)} are left out."


def let_the_command_line_win(written: Mapping[str, Any], sources: Sources) -> None:
    """Remove a network's own training settings that the command line sets for all networks.

    Budgets are removed if the command line sets the number of steps.
    """
    fields = mapping(written.get("fields"))
    for name in fields:
        own = at(fields, (name, "training"))
        for key in list(own) if isinstance(own, dict) else ():
            if sources.sets("training", key) and not sources.sets("fields", name, "training", key):
                del own[key]
    for place in (("training",), *(("fields", name, "training") for name in fields)):
        training = at(written, place)
        has_steps = sources.sets("training", "steps") or sources.sets(*place, "steps")
        for key in BUDGETS if has_steps and isinstance(training, dict) else ():
            if not sources.sets(*place, key):
                training.pop(key, None)


def usual_networks(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the default of ``fields`` if it is missing, without settings that `training` has."""
    if "fields" in written:
        return {}
    fields = copy.deepcopy(read_schema()["properties"]["fields"]["default"])
    for field in fields.values():
        for key in mapping(written.get("training")):
            field.get("training", {}).pop(key, None)
    return {"fields": fields}


def settings_without_effect(
    written: Mapping[str, Any],
    settings: Mapping[str, Any],
    own_keys: Mapping[str, Collection[str]],
    sources: Sources,
) -> Iterator[str]:
    """Yield a message for each setting without effect: which, why, and what to write instead.

    `written` are the merged settings after `let_the_command_line_win`, and `own_keys` has the
    training settings that each network sets itself, by its name. Networks and values of the section
    `training` that are the default ones are skipped, because the shipped file spells them out.
    """
    for taking, taken in (("preset", "fields"), ("preset", "sweeps"), ("image", "images")):
        if sources.sets(taking) and mapping(sources.given.get(taken)):
            yield (
                f"{COMMAND_LINE}: {taken} has no effect, because {taking} replaces all {taken};"
                " remove one of the two."
            )
    fields, schema = settings["fields"], read_schema()
    usual = schema["properties"]["fields"]["default"]
    things = [*settings["images"].values(), *settings["sweeps"].values()]
    used = {name for thing in things for name in thing.get("fields", fields)} & fields.keys()
    for name in fields.keys() - used:
        if at(written, ("fields", name)) not in (None, usual.get(name)):
            yield (
                f"{sources.where(('fields', name))} has no effect, because no image and"
                " no sweep names this network; add it to the `fields` of an image."
            )
    kinds = {name: fields[name]["type"] for name in used}
    trainings = {name: fields[name]["training"] for name in used if kinds[name] not in OTHER_KINDS}
    for key, value in mapping(written.get("training")).items():
        rule = schema["$defs"]["training"]["properties"][key]
        unmet = (
            f"{other}: {' or '.join(wanted)}"
            for other, wanted in rule.get("x-only-with", {}).items()
            if not any(training[other] in wanted for training in trainings.values())
        )
        if value == rule.get("default") or ("latents" in kinds.values() and key in CODING_USES):
            continue
        if not trainings:
            reason = "no network is trained with it"
        elif condition := next(unmet, ""):
            reason = f"no network is trained with {condition}"
        elif key == "steps" and all("budget" in training for training in trainings.values()):
            reason = "a budget determines the steps"
        elif all(key in own_keys[name] for name in trainings):
            reason = "every network sets its own value"
        else:
            continue
        where = sources.where(("training", key))
        yield f"{where}: {as_written(value)} has no effect, because {reason}."
