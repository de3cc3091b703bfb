"""Steps of several engines that a GPU takes at the same time, in a few streams."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from neuralfield.system.device import Device

_STREAMS = 4
"""Engines whose kernels run at the same time: those of small batches leave much of a GPU idle."""


class ConcurrentSteps:
    """Takes steps with several engines, and fetches their totals."""

    def __init__(self, device: Device) -> None:
        self._cuda = device.xp.cuda
        self._streams: list[Any] = []
        self._event = self._cuda.Event(disable_timing=True)

    def run(self, engines: Sequence[Any], first_step: int, count: int) -> None:
        """Take steps with each engine; the current stream waits for them.

        Engines of other kinds, which launch their kernels one by one, take turns.
        """
        if len(engines) == 1 or any(engine.name != "cuda" for engine in engines):
            for engine in engines:
                engine.run(first_step, count)
            return
        current = self._cuda.get_current_stream()
        for _ in range(len(self._streams), min(_STREAMS, len(engines))):
            self._streams.append(self._cuda.Stream(non_blocking=True))
        self._event.record(current)
        for stream in self._streams:
            stream.wait_event(self._event)
        for place, engine in enumerate(engines):
            with self._streams[place % _STREAMS]:
                engine.run(first_step, count)
        for stream in self._streams:
            self._event.record(stream)
            current.wait_event(self._event)

    def fetched_totals(self, engines: Sequence[Any]) -> np.ndarray:
        """Wait for the current stream, and return each engine's totals, shape (engines, 2).

        They come in one wait: where several processes share the GPU, each wait may take a turn of
        all others.
        """
        current = self._cuda.get_current_stream()
        pinned = self._cuda.alloc_pinned_memory(16 * len(engines))
        totals = np.frombuffer(pinned, np.float64, 2 * len(engines)).reshape(-1, 2)
        for engine, row in zip(engines, totals, strict=True):
            engine.totals.data.copy_to_host_async(row.ctypes.data, row.nbytes, current)
        current.synchronize()
        return totals.copy()
