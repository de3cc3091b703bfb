"""Records of the GPU memory that is allocated in a context."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from neuralfield.system.device import Device


@contextmanager
def allocations(gpu: Device) -> Iterator[list[dict[str, Any]]]:
    """Record each allocation of GPU memory within the context in the list that it yields."""
    asked_for: list[dict[str, Any]] = []

    class Watch(gpu.xp.cuda.MemoryHook):
        name = "watch"

        def malloc_preprocess(self, **details: Any) -> None:
            asked_for.append(details)

    with Watch():
        yield asked_for


def report_of_steps_without_allocations(engine: Any, gpu: Device) -> dict[str, int]:
    """Check that an engine's later steps allocate nothing, and return its report of memory."""
    engine.run(0, 20)
    with allocations(gpu) as asked_for:
        engine.run(20, 1000)
        gpu.synchronize()
    assert asked_for == []
    return engine.memory_report()
