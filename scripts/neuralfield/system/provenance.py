"""Checks that a file belongs to the training in whose folder it is.

The workflow can make each of its files again. An error therefore names the wrong file, and the file
or folder that has to be removed so that the next run makes it again.
"""

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from neuralfield.system.errors import CheckpointError, InputError
from neuralfield.system.files import read_whole

_MADE_ANEW = "run the same command again to recreate it"
_FOLDERS_MADE_AS_A_WHOLE = ("checkpoints", "comparison")
_RECORDS = ("training.json", "metrics.json")
_LARGEST_RECORD_BYTES = 16 << 20
_MOST_DIFFERENCES = 3
_DIGEST_CHARACTERS = 64


def remedy_for(path: str | os.PathLike, *, is_missing: bool = False) -> str:
    """Return what to do about a damaged or missing file of the workflow, for a message.

    If a folder is an output of a job, Snakemake does not notice that a file in it is missing, so
    that the whole folder has to be removed; the outputs of jobs on tiles are lists of files.
    """
    for folder in Path(path).parents:
        if folder.parent.name == "tiles":
            return f"remove the lists {folder.parent}/*.json, and {_MADE_ANEW}"
        if folder.name in _FOLDERS_MADE_AS_A_WHOLE:
            return f"remove the folder {folder}, and {_MADE_ANEW}"
    return f"copy it again, or {'' if is_missing else 'remove it and '}{_MADE_ANEW}"


@contextmanager
def made_by_the_workflow(path: str | os.PathLike) -> Iterator[None]:
    """Replace the remedy of an `InputError` about a file of the workflow with `remedy_for`."""
    try:
        yield
    except InputError as error:
        raise InputError(error.where, error.found, error.expected, remedy_for(path)) from error


def require_same_training(
    path: str | os.PathLike, found: Mapping[str, Any], expected: Mapping[str, Any], whose: str
) -> None:
    """Raise `CheckpointError` if the ``provenance`` of a network differs from the expected one.

    `whose` describes the expected network in the message.
    """
    differences = list(_differences(found, expected))
    if differences:
        listed = ", ".join(differences[:_MOST_DIFFERENCES])
        found_text = f"the network of another training ({listed})"
        raise CheckpointError(str(path), found_text, whose, remedy_for(path))


def require_finished(path: str | os.PathLike, metadata: Mapping[str, Any], steps: int) -> None:
    """Raise `CheckpointError` for a snapshot in place of the finished network.

    With `keep_best`, the finished network may be that of an earlier step than the last.
    """
    taken = metadata.get("best_of_steps", metadata.get("step"))
    if taken != steps:
        found = f"the network of step {taken!r}"
        expected = f"the finished network, of step {steps}"
        raise CheckpointError(str(path), found, expected, remedy_for(path))


def saved_step(path: str | os.PathLike, metadata: Mapping[str, Any]) -> int:
    """Return the step of the training that a network was saved at."""
    step = metadata.get("step")
    if type(step) is not int or step < 0:
        raise CheckpointError(str(path), f"step {step!r}", "a network that was trained here")
    return step


def json_digest(content: Any) -> str:
    """Return the SHA-256 of plain values as sorted JSON, in hexadecimal."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def sha256_of(path: str | os.PathLike) -> str:
    """Return the SHA-256 of a file, in hexadecimal.

    Raises `OSError` if it is not a regular file, or cannot be read.
    """
    # O_NONBLOCK, because opening a pipe without a writer would wait
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as file:  # noqa: PTH123
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(None, "no plain file", str(path))
        return hashlib.file_digest(file, "sha256").hexdigest()


def require_recorded(
    path: Path, record: Mapping[str, Any], where: Path, *, wrong: Path | None = None
) -> None:
    """Raise `InputError` if a file does not match its checksum in a record.

    The record was read from the file `where`. Records of earlier versions have no checksums, and
    are accepted. The error names the file `wrong` if it is given; otherwise the record, if the
    other record in the folder has the checksum of the file; otherwise the file.
    """
    noted = _noted(record, path)
    if noted is None or noted == (sha256 := sha256_of(path)):
        return
    others = {path.with_name(name) for name in _RECORDS} - {where}
    agree = any(_noted(_content(other), path) == sha256 for other in others)
    blamed = wrong or (where if agree else path)
    other = where if blamed == path else path
    found = f"is damaged, or does not belong to {other.name} beside it"
    raise InputError(str(blamed), found, "files of one training", remedy_for(blamed))


def measured(path: Path, key: str) -> float | None:
    """Return a number from ``metrics.json`` next to a file; None if it is of another file."""
    record = _content(path.with_name("metrics.json"))
    noted = _noted(record, path)
    if noted is None or noted != sha256_of(path):
        return None
    return value if isinstance(value := record.get(key), float | int) else None


def _noted(record: Any, path: Path) -> str | None:
    """Return the checksum of a file in a record; None if there is none."""
    checksums = record.get("sha256") if isinstance(record, Mapping) else None
    return checksums.get(path.name) if isinstance(checksums, Mapping) else None


def _content(path: Path) -> Any:
    """Parse a JSON file; return None if that fails."""
    try:
        return json.loads(read_whole(path, _LARGEST_RECORD_BYTES))
    except (OSError, ValueError, RecursionError):
        return None


def _differences(found: Any, expected: Any, name: str = "") -> Iterator[str]:
    """Yield a description of each value of nested mappings that differs."""
    if isinstance(found, Mapping) and isinstance(expected, Mapping):
        for key in {**expected, **found}:
            yield from _differences(found.get(key), expected.get(key), key)
    elif found != expected:
        is_digest = isinstance(expected, str) and len(expected) == _DIGEST_CHARACTERS
        yield f"{name} with another digest" if is_digest else f"{name} {found!r}, not {expected!r}"
