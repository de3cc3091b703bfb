"""Files that survive: models, snapshots and the state a run resumes from.

All are safetensors: arrays only, nothing that can run. They appear under their names only when they
are whole, and each carries a checksum of what it holds.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from neuralfield.errors import CheckpointError
from neuralfield.files import write_atomically

_METADATA_KEY = "neuralfield"
"""One key holding sorted JSON: safetensors writes several keys in an order that varies."""

_SNAPSHOT_NAME = re.compile(r"step_(\d{8})\.(?:safetensors|json)")
"""A model's own, or a mosaic of such."""


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, Any]) -> None:
    """Write arrays and plain metadata as safetensors; the same content gives the same bytes.

    Parameters
    ----------
    path : Path
    arrays : mapping of name to array
    metadata : mapping
        Whatever JSON can hold.
    """
    ordered = {name: np.ascontiguousarray(arrays[name]) for name in sorted(arrays)}
    plain = dict(metadata) | {"checksum": _checksum(ordered, metadata)}
    header = {_METADATA_KEY: json.dumps(plain, sort_keys=True)}
    write_atomically(path, save(ordered, metadata=header))


def load_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read what `save_arrays` wrote.

    Returns
    -------
    arrays : dict of name to array
    metadata : dict

    Raises
    ------
    CheckpointError
        The file is missing, cut short, changed, or not one of ours.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {})[_METADATA_KEY])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        recorded = header.pop("checksum")
        intact = recorded == _checksum(arrays, header)
    except FileNotFoundError as error:
        raise CheckpointError(str(path), "no such file", "a saved network") from error
    except (OSError, SafetensorError, KeyError, ValueError, TypeError, AttributeError) as error:
        found = f"cannot be read ({type(error).__name__}: {error})"
        raise CheckpointError(str(path), found, "a file written by neuralfield") from error
    if not intact:
        raise CheckpointError(
            str(path), "its content does not match its checksum", "the bytes that were saved"
        )
    return arrays, header


def snapshot_path(folder: Path, step: int) -> Path:
    """Where the snapshot of a step lies."""
    return folder / f"step_{step:08d}.safetensors"


def list_snapshots(folder: Path) -> list[tuple[int, Path]]:
    """(step, path) of every snapshot in a folder, by step."""
    found = []
    for path in Path(folder).glob("step_*"):
        match = _SNAPSHOT_NAME.fullmatch(path.name)
        if match:
            found.append((int(match[1]), path))
    return sorted(found)


def fingerprint(*parts: Any) -> str:
    """A short name for settings and data: 16 hexadecimal digits of SHA-256 over sorted JSON."""
    text = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _checksum(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(dict(metadata), sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
