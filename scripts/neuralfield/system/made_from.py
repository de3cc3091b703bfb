"""A record of what files in a folder were made from, so that none is made twice."""

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from neuralfield.system.errors import NeuralfieldError
from neuralfield.system.files import write_atomically
from neuralfield.system.input_files import read_json

RECORD_NAME = ".made_from.json"


def is_made_from(path: Path, description: str) -> bool:
    """Return whether a file was made from what `description` says, and not changed since."""
    return path.exists() and _recorded(path).get(path.name) == [description, sha256_of([path])]


def record_made_from(path: Path, description: str) -> None:
    """Record a file that has just been made; where that fails, it will be made again."""
    recorded = _recorded(path) | {path.name: [description, sha256_of([path])]}
    content = json.dumps(recorded, indent=1)
    with suppress(NeuralfieldError):
        write_atomically(path.with_name(RECORD_NAME), f"{content}\n".encode())


def forget_made_from(folder: Path) -> None:
    """Let all files of a folder be made again."""
    with suppress(OSError):
        (folder / RECORD_NAME).unlink()


def sha256_of(paths: Iterable[Path]) -> str:
    """Return one SHA-256 for the contents of several files, in their order."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _recorded(path: Path) -> dict[str, Any]:
    with suppress(NeuralfieldError):  # missing or damaged: nothing is recorded
        recorded = read_json(path.with_name(RECORD_NAME))
        return recorded if isinstance(recorded, dict) else {}
    return {}
