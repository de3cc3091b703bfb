"""Files of models, of snapshots and of the state from which a training resumes.

All are safetensors files, which contain arrays and no executable code. A file appears under its
name only when it is complete, and contains a checksum of its content.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from neuralfield.system.errors import CheckpointError
from neuralfield.system.files import read_whole, write_atomically
from neuralfield.system.provenance import json_digest, remedy_for

MOST_BYTES = 8 << 30
"""Maximum size of a file in bytes; networks are far smaller, and it limits the memory used."""

_MOST_HEADER_BYTES = 4 << 20
"""Maximum size of a header in bytes; parsed JSON takes about thirty times the memory of its text.
"""

_METADATA_KEY = "neuralfield"
"""The only key of the header, whose value is sorted JSON; the order of several keys would vary."""

_UNREADABLE = (
    *(OSError, KeyError, ValueError, TypeError, AttributeError),
    *(RecursionError, OverflowError),
)
"""Exceptions, beside those of safetensors, on reading a file that is damaged or malicious."""

_SNAPSHOT_NAME = re.compile(r"step_(\d{8})\.(?:safetensors|json)")
"""File name of the snapshot of a model (.safetensors) or of a mosaic of models (.json)."""


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, Any]) -> None:
    """Write arrays and JSON metadata as safetensors; the same content gives the same bytes."""
    from safetensors.numpy import save  # planning needs this module, but not the package

    ordered = {name: np.ascontiguousarray(arrays[name]) for name in sorted(arrays)}
    plain = dict(metadata) | {"checksum": _checksum(ordered, metadata)}
    header = {_METADATA_KEY: json.dumps(plain, sort_keys=True)}
    write_atomically(path, save(ordered, metadata=header))


def load_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read the arrays and the metadata that `save_arrays` wrote.

    Raises `CheckpointError` if the file is missing, truncated, changed, or not written by
    neuralfield.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        content = read_whole(path, MOST_BYTES)
        header = _metadata(content)
        arrays = load(content)
        recorded = header.pop("checksum")
        intact = recorded == _checksum(arrays, header)
    except FileNotFoundError as error:
        remedy = remedy_for(path, is_missing=True)
        raise CheckpointError(str(path), "no such file", "a saved network", remedy) from error
    except (SafetensorError, *_UNREADABLE) as error:
        found = f"cannot be read ({type(error).__name__}: {error})"
        expected = "a file written by neuralfield"
        raise CheckpointError(str(path), found, expected, remedy_for(path)) from error
    if not intact:
        raise CheckpointError(
            str(path),
            "its content does not match its checksum",
            "the bytes that were saved",
            remedy_for(path),
        )
    return arrays, header


def snapshot_path(folder: Path, step: int) -> Path:
    """Return the path of a step's snapshot."""
    return folder / f"step_{step:08d}.safetensors"


def list_snapshots(folder: Path) -> list[tuple[int, Path]]:
    """Return (step, path) of every snapshot in a folder, in the order of steps."""
    named = ((_SNAPSHOT_NAME.fullmatch(path.name), path) for path in folder.glob("step_*"))
    return sorted((int(match[1]), path) for match, path in named if match)


def fingerprint(*parts: Any) -> str:
    """Return 16 hexadecimal digits of the `json_digest` of the parts."""
    return json_digest(parts)[:16]


def _metadata(content: bytes) -> dict[str, Any]:
    """Return neuralfield's part of the header; safetensors checks the header against the data."""
    header_bytes = int.from_bytes(content[:8], "little")
    if not 0 < header_bytes <= min(len(content) - 8, _MOST_HEADER_BYTES):
        raise ValueError("no header of a safetensors file, or a part of the file is missing")
    return json.loads(json.loads(content[8 : 8 + header_bytes])["__metadata__"][_METADATA_KEY])


def _checksum(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(dict(metadata), sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
