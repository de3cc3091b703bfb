"""Files of models that are damaged, or say of themselves what is not so; how readers take it."""

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
    """The same file cut short, with bits turned over, and with another file in its place."""
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
    """Each damage to a model's file is named in a line, or without effect.

    Parameters
    ----------
    path : Path
        The whole file; damaged in place.
    damaged : iterator of bytes
        Contents to put there.
    load : callable
    *facts : str
        Names of a model's attributes that tell models apart, beside its arrays.
    error : type
        What `load` may raise.
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
    """The same of a training's model, in whose place its states are put, too."""
    content = (trained / "model.safetensors").read_bytes()
    others = [b"", *(path.read_bytes() for path in sorted((trained / "state").glob("state_*")))]
    path = folder / "model.safetensors"
    path.write_bytes(content)
    require_damages_named(path, damages(content, others, 120, seed=8), load, fact)


def complaint_about(
    changes: dict[str, Any], source: Path, folder: Path, load: Callable[[Path], Any]
) -> str:
    """Return the message about a model's file whose description of itself was changed; one line."""
    path = folder / "model.safetensors"
    arrays, description = load_arrays(source)
    save_arrays(path, arrays, description | changes)
    with pytest.raises(CheckpointError) as caught:
        load(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)
