"""The JSON files that evaluations write, and the records of trainings that they pass on."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from neuralfield.system.files import write_atomically
from neuralfield.system.input_files import read_json
from neuralfield.system.provenance import require_recorded, sha256_of

TRAINING_KEYS = (
    *("steps", "train_seconds", "step_microseconds", "device", "engine", "precision"),
    *("random_seed", "rollback", "versions"),
)
"""The keys of training.json that metrics.json repeats."""


def read_record(
    path: Path,
    network: Path,
    training: Mapping[str, Any] | None,
    parameters: int | None = None,
) -> dict[str, Any]:
    """Read training.json, and refuse the record of another training.

    Parameters
    ----------
    path : Path
    network : Path
        The file of the network, which has been checked.
    training : mapping, optional
        The settings of the training.
    parameters : int, optional
        The number of the network's parameters.

    Raises
    ------
    InputError
        The record is missing, damaged, or of another training.
    """
    if training is None:
        return read_json(path)
    own = {key: training[key] for key in ("random_seed", "steps")}
    if parameters is not None:
        own["parameters"] = parameters
    record = read_json(path, (*TRAINING_KEYS, "parameters"), own)
    require_recorded(network, record, path, wrong=path)
    return record


def read_own_metrics(path: Path, keys: Iterable[str] = ()) -> dict[str, Any]:
    """Read the metrics.json of an image's network, which lies in ``{image}/{field}/``.

    Raises
    ------
    InputError
        The file is missing or damaged, lacks one of the keys, or is of another network or image.
    """
    return read_json(path, keys, {"image": path.parent.parent.name, "field": path.parent.name})


def write_metrics(
    path: Path,
    numbers: Mapping[str, Any],
    record: Mapping[str, Any],
    *,
    parameters: int,
    beside: Iterable[Path] = (),
    allow_nan: bool = False,
) -> None:
    """Write metrics.json: the numbers, how the network was trained, and checksums.

    Parameters
    ----------
    path : Path
    numbers : mapping
    record : mapping
        See `read_record`; empty for a network that was not trained here.
    parameters : int
    beside : iterable of Path
        Files whose checksums are added to those of the record.
    allow_nan : bool
        Whether a number may be NaN.
    """
    checksums = record.get("sha256", {}) | {file.name: sha256_of(file) for file in beside}
    training = {key: record.get(key) for key in TRAINING_KEYS}
    content = {**numbers, "parameters": parameters, **training, "sha256": checksums}
    write_json(path, content, allow_nan=allow_nan)


def write_json(path: Path, content: Mapping[str, Any], *, allow_nan: bool = True) -> None:
    """Write a JSON file that people can read."""
    write_atomically(path, (json.dumps(content, indent=2, allow_nan=allow_nan) + "\n").encode())
