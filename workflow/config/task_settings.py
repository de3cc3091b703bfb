"""Checks of settings of trainings, tables and classifiers that constrain each other."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from config.named_files import find_folder, missing_file, result_of_itself
from config.schema import read_schema
from config.sources import WhereIs
from config.wording import as_written
from neuralfield.system.errors import ConfigError, InputError
from neuralfield.tasks.classifier.labelled import HELD_OUT, TRAINING, find_files


@cache
def _limits() -> dict[str, str]:
    """Return the settings that another setting limits, and the names of these others."""
    rules = read_schema()["$defs"]["training"]["properties"]
    return {key: rule["x-limited-by"] for key, rule in rules.items() if "x-limited-by" in rule}


def outside_their_limits(
    training: Mapping[str, Any], where: Callable[[str, str], str]
) -> Iterator[ConfigError]:
    """Yield errors of training settings that contradict each other, for a training of any kind.

    `where` returns the place of a setting, given its name and the name of the setting that limits
    it.
    """
    for key, limit_key in _limits().items():
        if limit_key == "steps" and "budget" in training:
            continue  # a budget shortens a warm-up
        if training.get(key, 0) > training.get(limit_key, math.inf):
            expected = f"at most {limit_key}, which is {training[limit_key]:g}"
            remedy = f"lower {key}, or raise {limit_key}"
            yield ConfigError(where(key, limit_key), as_written(training[key]), expected, remedy)
    key = "minimum_learning_rate"
    if training["schedule"] == "exponential" and not training[key] > 0:
        expected = "a number above 0, where schedule: exponential ends"
        yield ConfigError(where(key, "schedule"), as_written(training[key]), expected)


def size_name(widths: Sequence[int]) -> str:
    """Return the folder of a further network of a table: ``16x8`` for ``[16, 8]``."""
    return "x".join(map(str, widths)) or "none"


def table_complaints(
    name: str, settings: Mapping[str, Any], where_is: WhereIs
) -> Iterator[ConfigError]:
    """Yield errors of one table's settings that contradict each other; jobs check the columns."""
    table = settings["tables"][name]

    def where(*keys: str) -> str:
        return where_is(("tables", name, *keys))

    yield from missing_file(table["path"], where("path"), "a CSV")
    yield from result_of_itself(table["path"], f"results/tables/{name}", where("path"))
    both = [column for column in table["targets"] if column in table["inputs"]]
    if both:
        yield ConfigError(
            where("targets"), f"{both[0]}, which is also an input", "columns that are not inputs"
        )
    if table["network"]["widths"] in table["sizes"]:
        found = f"{as_written(table['network']['widths'])}, the widths of the network itself"
        yield ConfigError(where("sizes"), found, "widths of other networks", "remove it")
    truth, targets = table.get("truth"), table["targets"]
    if truth and len(truth) != len(targets):
        expected = f"a column for each target: {len(targets)}"
        yield ConfigError(where("truth"), f"{len(truth)} columns", expected)
    output, training = table["network"]["output"], table["training"]
    if training["loss"] == "binary_cross_entropy" and output != "sigmoid":
        expected = "sigmoid, whose values are probabilities, with the loss binary_cross_entropy"
        yield ConfigError(where("network", "output"), output, expected)
    if output == "sigmoid" and table["scale_targets"] not in ("auto", "none"):
        expected = "auto or none, with the output sigmoid"
        yield ConfigError(where("scale_targets"), table["scale_targets"], expected)
    yield from outside_their_limits(training, lambda key, _: where("training", key))


def classifier_complaints(
    name: str, settings: Mapping[str, Any], where_is: WhereIs
) -> Iterator[ConfigError]:
    """Yield errors in the settings of one classifier; its jobs check the contents of the files."""
    classifier = settings["classifiers"][name]
    network, training = classifier["network"], classifier["training"]

    def where(*keys: str) -> str:
        return where_is(("classifiers", name, *keys))

    folder = find_folder(classifier["path"])
    if folder is None:
        expected = "the path of a folder with four IDX files"
        remedy = f"write it relative to the working directory, {Path.cwd()}"
        yield ConfigError(where("path"), f"{classifier['path']}: no such folder", expected, remedy)
    else:
        yield from _files(folder, classifier["checksums"], where)
    if network["padding"] >= network["kernel"]:
        expected = f"less than kernel, which is {network['kernel']}"
        yield ConfigError(where("network", "padding"), network["padding"], expected)
    yield from outside_their_limits(training, lambda key, _: where("training", key))


def _files(
    folder: Path, checksums: Mapping[str, str], where: Callable[..., str]
) -> Iterator[ConfigError]:
    """Yield an error for missing files, and for checksums of files that are not in the folder."""
    try:
        names = [file.name for own in (TRAINING, HELD_OUT) for file in find_files(folder, own)]
    except InputError as error:
        found = f"{error.where} {error.found}"
        yield ConfigError(where("path"), found, error.expected, error.remedy)
        return
    for name in checksums:
        if name not in names:
            expected = f"one of the files there: {', '.join(names)}"
            yield ConfigError(where("checksums", name), "no such file", expected)
