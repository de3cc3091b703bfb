"""Concurrent steps of several engines on a GPU, in a few streams."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from neuralfield.system.device import Device

_STREAMS = 4
"""Number of engines whose kernels run concurrently, because a small batch leaves much of a GPU
idle."""


class ConcurrentSteps:
    """Takes steps with several engines, and fetches their totals."""

    def __init__(self, device: Device) -> None:
        self._cuda = device.xp.cuda
        self._streams: list[Any] = []
        self._event = self._cuda.Event(disable_timing=True)

    def run(self, calls: Sequence[tuple[Any, int, int]]) -> None:
        """Take steps with each engine (see `Call`); the current stream waits for them.

        If some engines are not cuda engines, which means that they launch their kernels one by one,
        all engines take turns.
        """
        if len(calls) == 1 or any(engine.name != "cuda" for engine, *_ in calls):
            for engine, first_step, count in calls:
                engine.run(first_step, count)
            return
        current = self._cuda.get_current_stream()
        for _ in range(len(self._streams), min(_STREAMS, len(calls))):
            self._streams.append(self._cuda.Stream(non_blocking=True))
        self._event.record(current)
        for stream in self._streams:
            stream.wait_event(self._event)
        for place, (engine, first_step, count) in enumerate(calls):
            with self._streams[place % _STREAMS]:
                engine.run(first_step, count)
        for stream in self._streams:
            self._event.record(stream)
            current.wait_event(self._event)

    def fetched_totals(self, engines: Sequence[Any]) -> np.ndarray:
        """Wait for the current stream, and return each engine's totals, shape (engines, 2).

        There is only one wait for all engines, because if several processes share the GPU, a wait
        may last until each of the other processes has had its turn.
        """
        current = self._cuda.get_current_stream()
        pinned = self._cuda.alloc_pinned_memory(16 * len(engines))
        totals = np.frombuffer(pinned, np.float64, 2 * len(engines)).reshape(-1, 2)
        for engine, row in zip(engines, totals, strict=True):
            engine.totals.data.copy_to_host_async(row.ctypes.data, row.nbytes, current)
        current.synchronize()
        return totals.copy()
