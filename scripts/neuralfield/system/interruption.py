"""Being asked to stop: a signal or the clock; the training loop stops where it is safe."""

import math
import signal
import threading
import time
from types import TracebackType


class Interrupted(Exception):
    """The training was asked to stop; its state is saved."""


class StopSignals:
    """Within this context SIGTERM, SIGINT and SIGUSR1 set a flag and do nothing else.

    Handlers that raise could strike in the middle of an update or a write.

    Parameters
    ----------
    leave_at_s : float, optional
        The moment from which on the time limit asks to stop too, as `time.monotonic` has it.
    """

    _WATCHED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)

    def __init__(self, leave_at_s: float = math.inf) -> None:
        self.leave_at_s = leave_at_s
        self._received: signal.Signals | None = None
        self._previous: dict[signal.Signals, object] = {}

    @property
    def received(self) -> str:
        """What asks to stop: the name of a signal, "time limit", or an empty string."""
        if self._received:
            return self._received.name
        return "time limit" if time.monotonic() >= self.leave_at_s else ""

    def raise_if_received(self, saved: str) -> None:
        """Leave, saying what has been saved.

        Raises
        ------
        Interrupted
        """
        if reason := self.received:
            raise Interrupted(f"{reason}: {saved}; the same command goes on from there")

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():
            for watched in self._WATCHED:
                self._previous[watched] = signal.signal(watched, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for watched, handler in self._previous.items():
            signal.signal(watched, handler)  # type: ignore[arg-type]

    def _note(self, number: int, frame: object) -> None:
        self._received = signal.Signals(number)
