"""The peak memory of a program and of all processes that it started."""

import contextlib
import threading
from types import TracebackType
from typing import Self

import psutil

_SECONDS_BETWEEN_SAMPLES = 0.2


class PeakMemory:
    """A context manager that samples the total resident memory of this process and its children.

    Pages that several processes share are counted for each of them.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self.largest: list[tuple[int, str]] = []
        """Resident bytes and command of each process at the time of the peak, the largest first."""
        self._has_ended = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Self:
        self._sampler.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._has_ended.set()
        self._sampler.join()

    def _sample(self) -> None:
        this = psutil.Process()
        while not self._has_ended.wait(_SECONDS_BETWEEN_SAMPLES):
            found = []
            for process in (this, *this.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    command = " ".join(process.cmdline()[:3])
                    found.append((process.memory_info().rss, command))
            total = sum(resident for resident, _ in found)
            if total > self.bytes:
                self.bytes, self.largest = total, sorted(found, reverse=True)
