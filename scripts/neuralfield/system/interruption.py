"""When a training stops early: on a signal, or before its time limit; its state is saved first."""

import math
import re
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
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


SLURM_JOB = "SLURM_JOB_ID"
SLURM_END = "SLURM_JOB_END_TIME"
"""What newer SLURMs call the moment at which they end the job, in seconds of the Unix epoch."""

_LONGEST_MARGIN = 0.5
"""Of the time there is: however short a limit, some work is done before it."""

_SQUEUE_PATIENCE_S = 20
_TIME_LEFT = re.compile(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d\d)")
"""As squeue writes it: minutes and seconds, before them hours, before them days."""


def leaving_time_s(
    limit_s: float | None, margin_s: float, environment: Mapping[str, str], *, started_s: float
) -> float:
    """The moment to leave at: some time before the job's own limit or the cluster's, the earlier.

    Parameters
    ----------
    limit_s : float, optional
        Seconds that the job may take.
    margin_s : float
        How long before a limit it is to leave; at most half of the time up to there.
    environment : mapping
        ``os.environ``: it tells whether this is a SLURM job, which then is asked when it ends.
    started_s : float
        When the job began, as `time.monotonic` has it.

    Returns
    -------
    float
        As `time.monotonic` has it; infinity where there is no limit.
    """
    now_s = time.monotonic()
    limits = [(now_s, slurm_time_left_s(environment))]
    if limit_s is not None:
        limits.append((started_s, limit_s))
    return min(
        since_s + left_s - min(margin_s, _LONGEST_MARGIN * max(left_s, 0.0))
        for since_s, left_s in limits
    )


def slurm_time_left_s(environment: Mapping[str, str]) -> float:
    """Seconds until SLURM ends this job; infinity where it is none, or SLURM does not say.

    SLURM is asked, because few of its versions say so in the environment, and what starts a job's
    steps may not pass it on.
    """
    if environment.get(SLURM_END, "").isdecimal():
        return int(environment[SLURM_END]) - time.time()
    if SLURM_JOB not in environment:
        return math.inf
    command = ["squeue", "--noheader", "--jobs", environment[SLURM_JOB], "--format", "%L"]
    try:
        said = subprocess.run(
            command,
            env=dict(environment),
            capture_output=True,
            text=True,
            timeout=_SQUEUE_PATIENCE_S,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return math.inf
    found = _TIME_LEFT.fullmatch(said)  # or UNLIMITED, NOT_SET, INVALID
    if not found:
        return math.inf
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
