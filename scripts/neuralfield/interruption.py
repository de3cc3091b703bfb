"""Being asked to stop: signals set a flag, and the training loop stops where it is safe."""

import signal
import threading
from types import TracebackType

EXIT_CODE_TRY_AGAIN = 75
"""EX_TEMPFAIL of sysexits.h: nothing is wrong, the same command goes on from here."""


class Interrupted(Exception):
    """The training was asked to stop; its state is saved."""


class StopSignals:
    """Within this context SIGTERM, SIGINT and SIGUSR1 set a flag and do nothing else.

    Handlers that raise could strike in the middle of an update or a write.
    """

    _WATCHED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)

    def __init__(self) -> None:
        self._received: signal.Signals | None = None
        self._previous: dict[signal.Signals, object] = {}

    @property
    def received(self) -> str:
        """Name of the signal that came, or an empty string."""
        return self._received.name if self._received else ""

    def raise_if_received(self, saved: str) -> None:
        """Leave, saying what has been saved.

        Raises
        ------
        Interrupted
        """
        if self._received:
            raise Interrupted(
                f"{self._received.name}: {saved}; the same command goes on from there"
            )

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
