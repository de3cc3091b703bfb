"""Metrics files of evaluations, and the records of trainings that they repeat."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from neuralfield.system.files import write_json
from neuralfield.system.input_files import read_json
from neuralfield.system.provenance import require_recorded, sha256_of

TRAINING_KEYS = (
    *("steps", "train_seconds", "step_microseconds", "device", "engine", "precision"),
    *("random_seed", "rollback", "versions"),
)
"""The keys of training.json that metrics.json repeats."""

FOUND_KEY = "found_for_budget"
"""A further key of trainings with a budget: the settings that the budget determined."""


def read_record(path: Path, network: Path) -> dict[str, Any]:
    """Read training.json; refuse the record of another file than `network`."""
    record = read_json(path, TRAINING_KEYS)
    require_recorded(network, record, path, wrong=path)
    return record


def read_own_metrics(path: Path, keys: Iterable[str] = ()) -> dict[str, Any]:
    """Read a metrics.json; refuse one that lacks one of the `keys`, or is of another folder."""
    return read_json(path, keys, names_of(path.parent))


def names_of(folder: Path) -> dict[str, str]:
    """Return the names that identify the network of a folder, which its metrics have, too.

    The folders are ``{image}/{field}``, ``tables/{table}``, ``tables/{table}/sizes/{size}`` and
    ``classifiers/{classifier}`` in the results.
    """
    kind, name = folder.parts[-2:]
    if kind == "sizes" and folder.parts[-4:-3] == ("tables",):
        return {"table": "/".join(folder.parts[-3:])}
    key = {"tables": "table", "classifiers": "classifier"}.get(kind)
    return {key: name} if key else {"image": kind, "field": name}


def storage(size_bytes: int, width: int, height: int) -> dict[str, float]:
    """Return the size of a file, or of a network in 16 bits, and its bits per training pixel."""
    return {"stored_bytes": size_bytes, "bits_per_pixel": 8 * size_bytes / (width * height)}


def write_metrics(
    path: Path,
    numbers: Mapping[str, Any],
    record: Mapping[str, Any],
    *,
    beside: Iterable[Path] = (),
    allow_nan: bool = False,
) -> None:
    """Write metrics.json: the `numbers`, parts of the training's `record`, and checksums.

    The last of the numbers is ``parameters``. The `record` is empty for a network that was not
    trained here. The checksums are those in the record and those of the files `beside`.
    """
    checksums = record.get("sha256", {}) | {file.name: sha256_of(file) for file in beside}
    training = {key: record.get(key) for key in TRAINING_KEYS}
    if FOUND_KEY in record:
        training[FOUND_KEY] = record[FOUND_KEY]
    content = {**numbers, **training, "sha256": checksums}
    write_json(path, content, allow_nan=allow_nan)
