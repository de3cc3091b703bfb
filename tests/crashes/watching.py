"""Waiting for processes that are killed, counting kills, and comparing results."""

import contextlib
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from processes import PATIENCE_S  # `victims` makes it importable
from victims import LOG, SendSignal, processes_of_session


class PromiseBroken(Exception):
    """The error that is raised if a run fails by itself, or ends with different results."""


class Tally:
    """Counts of kills, by what they hit, and of runs that ended with the same bytes."""

    def __init__(self) -> None:
        self.kills: Counter[str] = Counter()
        self.causes: Counter[str] = Counter()
        self.rules: Counter[str] = Counter()
        self.missed = self.whole_runs = self.files_compared = 0

    def table(self) -> str:
        """Return a line for each phase that was hit, and for each cause and rule, if any."""
        blocks = [("what they hit", self.kills), ("cause", self.causes), ("rule", self.rules)]
        lines = []
        for title, counts in blocks:
            if counts:
                lines += [f"kills  {title}"]
                lines += [f"{count:5}  {name}" for name, count in sorted(counts.items())]
        return "\n".join([*lines, f"{self.kills.total():5}  in all"])


def wait_until(
    happens: Callable[[], bool],
    process: subprocess.Popen,
    patience_s: float = PATIENCE_S,
    pause_s: float = 0.0002,
) -> None:
    """Wait until an event happens, the process ends, or the time is up."""
    deadline_s = time.monotonic() + patience_s
    while process.poll() is None and not happens() and time.monotonic() < deadline_s:
        time.sleep(pause_s)


def send_signal(send: SendSignal, pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that may have ended."""
    with contextlib.suppress(ProcessLookupError):  # it has ended
        send(pid, number)


def let_finish(process: subprocess.Popen, folder: Path, name: str) -> None:
    """Wait for a process that must succeed."""
    try:
        code = process.wait(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise PromiseBroken(f"{name}: still at work after {PATIENCE_S} s") from None
    if code != 0:
        messages = (folder / LOG).read_text()[-4000:]
        raise PromiseBroken(
            f"{name}: ended with exit code {code}, and nobody killed it\n{messages}"
        )


def wait_for_orphans(sessions: list[int], name: str) -> None:
    """Wait until no process of the sessions is left."""
    deadline_s = time.monotonic() + PATIENCE_S
    while any(map(processes_of_session, sessions)):
        if time.monotonic() > deadline_s:
            raise PromiseBroken(f"{name}: jobs of a killed Snakemake do not end")
        time.sleep(0.05)


def compare(found: dict[str, str], expected: dict[str, str], name: str) -> None:
    """Raise an error if the checksums of any files differ."""
    names = sorted(found.keys() | expected.keys())
    others = [file for file in names if found.get(file) != expected.get(file)]
    if others:
        raise PromiseBroken(f"{name}: not as in the run left alone: {', '.join(others)}")
