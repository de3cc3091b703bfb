"""Records of the GPU memory that is allocated meanwhile."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from neuralfield.system.device import Device


@contextmanager
def allocations(gpu: Device) -> Iterator[list[dict[str, Any]]]:
    """Let others work, and note each allocation in the list that is given."""
    asked_for: list[dict[str, Any]] = []

    class Watch(gpu.xp.cuda.MemoryHook):
        name = "watch"

        def malloc_preprocess(self, **details: Any) -> None:
            asked_for.append(details)

    with Watch():
        yield asked_for
