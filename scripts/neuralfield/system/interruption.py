"""Interruption of trainings by signals and time limits, after the state is saved."""

import math
import re
import signal
import subprocess
import threading
import time
from collections.abc import Mapping


class Interrupted(Exception):
    """The training was asked to stop; its state is saved."""


class StopSignals:
    """A context in which SIGTERM, SIGINT and SIGUSR1 only set a flag.

    A handler that raises an exception could interrupt an update or a write. A stop is also
    requested from `leave_at_s` on, a time of `time.monotonic`.
    """

    _WATCHED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)

    def __init__(self, leave_at_s: float = math.inf) -> None:
        self.leave_at_s = leave_at_s
        self._received: signal.Signals | None = None
        self._previous: dict[signal.Signals, object] = {}

    @property
    def received(self) -> str:
        """The reason to stop: the name of a signal, "time limit", or an empty string."""
        if self._received:
            return self._received.name
        return "time limit" if time.monotonic() >= self.leave_at_s else ""

    def raise_if_received(self, saved: str) -> None:
        """Raise `Interrupted` if there is a reason to stop; `saved` is part of the message."""
        if reason := self.received:
            raise Interrupted(f"{reason}: {saved}; run the same command again to resume")

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():
            for watched in self._WATCHED:
                self._previous[watched] = signal.signal(watched, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for watched, handler in self._previous.items():
            signal.signal(watched, handler)  # type: ignore[arg-type]

    def _note(self, number: int, frame: object) -> None:
        self._received = signal.Signals(number)


SLURM_JOB = "SLURM_JOB_ID"
SLURM_END = "SLURM_JOB_END_TIME"
"""Environment variable of newer versions of SLURM: the end of the job, in Unix time."""

_LONGEST_MARGIN = 0.5
"""Maximum margin as a share of the time left, so that some work is done before any limit."""

_PATIENCE_S = 20
_TIME_LEFT = re.compile(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d\d)")
"""The format of squeue: [[days-]hours:]minutes:seconds."""


def leaving_time_s(
    limit_s: float | None, margin_s: float, environment: Mapping[str, str], *, started_s: float
) -> float:
    """Return the time at which to stop: a margin before the limit of the job or of the cluster.

    All times are those of `time.monotonic`; the result is infinity if there is no limit. The job
    began at `started_s`, and may take `limit_s`. If `environment` is that of a SLURM job, the limit
    of SLURM applies, too.
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
    """Return the seconds until SLURM ends this job; infinity if it is not a SLURM job.

    If the environment does not contain the end of the job (few versions of SLURM set it, and a job
    step may not inherit it), ``squeue`` is called. If that fails, the result is infinity.
    """
    if environment.get(SLURM_END, "").isdecimal():
        return int(environment[SLURM_END]) - time.time()
    if SLURM_JOB not in environment:
        return math.inf
    command = ["squeue", "--noheader", "--jobs", environment[SLURM_JOB], "--format", "%L"]
    try:
        time_left = subprocess.check_output(
            command, env=environment, stderr=subprocess.DEVNULL, text=True, timeout=_PATIENCE_S
        ).strip()
    except (OSError, subprocess.SubprocessError):
        return math.inf
    found = _TIME_LEFT.fullmatch(time_left)  # or UNLIMITED, NOT_SET, INVALID
    if not found:
        return math.inf
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
