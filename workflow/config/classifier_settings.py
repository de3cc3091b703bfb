"""Checks of classifiers in the config."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from config.named_files import find_folder
from config.training_limits import outside_their_limits
from config.wording import WhereIs
from neuralfield.system.errors import ConfigError, InputError
from neuralfield.tasks.classifier.labelled import HELD_OUT, TRAINING, find_files


def complaints(name: str, settings: Mapping[str, Any], where_is: WhereIs) -> Iterator[ConfigError]:
    """Yield what is wrong between the settings of one classifier; its jobs read the files."""
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
    """Yield an error for files that are missing, and for checksums of others."""
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
