"""Damaged model files and files with false metadata, and checks of how readers handle them."""

import itertools
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neuralfield.system.checkpoint import load_arrays, save_arrays
from neuralfield.system.errors import CheckpointError, NeuralfieldError

KINDS = ("truncated", "flipped", "swapped")


def damages(content: bytes, others: list[bytes], count: int, seed: int) -> Iterator[bytes]:
    """Yield the content cut short, with flipped bits, and replaced by another file's content."""
    random = np.random.default_rng(seed)
    for kind in itertools.islice(itertools.cycle(KINDS), count):
        if kind == "truncated":
            yield content[: random.integers(len(content))]
        elif kind == "flipped":
            changed = np.frombuffer(content, np.uint8).copy()
            for _ in range(random.integers(1, 4)):
                changed[random.integers(len(changed))] ^= 1 << random.integers(8)
            yield changed.tobytes()
        else:
            yield others[random.integers(len(others))]


def require_damages_named(
    path: Path,
    damaged: Iterator[bytes],
    load: Callable[[Path], Any],
    *facts: str,
    error: type[NeuralfieldError] = CheckpointError,
) -> None:
    """Check that each damage to a model file is reported in one line or has no effect.

    Parameters
    ----------
    path : Path
        The undamaged file; it is overwritten.
    damaged : iterator of bytes
        Contents to write to it.
    load : callable
    *facts : str
        Names of attributes that distinguish models, in addition to their arrays.
    error : type
        The error that `load` may raise.
    """
    whole, facts_of = load(path), attrgetter("metadata", *facts)
    for content in damaged:
        path.write_bytes(content)
        try:
            model = load(path)
        except error as found:
            assert str(found).startswith(str(path)) and "\n" not in str(found)
        else:
            assert facts_of(model) == facts_of(whole)
            assert all(np.array_equal(model.arrays[n], a) for n, a in whole.arrays.items())


def require_damages_of_training_named(
    trained: Path, folder: Path, load: Callable[[Path], Any], fact: str
) -> None:
    """Check the same for a training's model, which is also replaced by the training's states."""
    content = (trained / "model.safetensors").read_bytes()
    others = [b"", *(path.read_bytes() for path in sorted((trained / ".state").glob("state_*")))]
    path = folder / "model.safetensors"
    path.write_bytes(content)
    require_damages_named(path, damages(content, others, 120, seed=8), load, fact)


def complaint_about(
    changes: dict[str, Any], source: Path, folder: Path, load: Callable[[Path], Any]
) -> str:
    """Change the metadata in a model file, and return the one-line message of its reader."""
    path = folder / "model.safetensors"
    arrays, description = load_arrays(source)
    save_arrays(path, arrays, description | changes)
    with pytest.raises(CheckpointError) as caught:
        load(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)
