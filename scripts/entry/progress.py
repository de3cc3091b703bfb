"""The progress of a training: a small file beside its log, for the process that shows it."""

import contextlib
import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

_SECONDS_BETWEEN_WRITES = 0.5
_LARGEST_BYTES = 10_000


@dataclass(frozen=True)
class Progress:
    """The state of a training's progress."""

    # steps taken, and steps of the whole training
    step: int
    steps: int
    until_step: int  # the last step of this job: before the last one of all where it is a segment
    measured: str = ""
    """The measure of the task with its unit; empty before the first row of the history."""
    seconds: float = 0.0  # time of all steps so far, in earlier attempts too
    steps_per_s: float = 0.0  # rate of this job; 0 where it is not known yet

    @property
    def seconds_left(self) -> float | None:
        """Until the last step of this job; None where the rate is not known yet."""
        if not self.steps_per_s:
            return None
        return max(0, self.until_step - self.step) / self.steps_per_s

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Read the progress of a training; None where there is none."""
        try:
            with path.open("rb") as file:
                return cls(**json.loads(file.read(_LARGEST_BYTES)))
        except (OSError, ValueError, TypeError):
            return None


def progress_path(log: str | os.PathLike) -> Path:
    """Return the path of the progress of the training that has this log."""
    return Path(log).with_suffix(".progress.json")


class ProgressFile:
    """Writes the progress of a training, at most twice a second and at its end.

    The file is renamed to its place, so that no reader finds half of it, but not synced: it is of
    no use after a crash. Where it cannot be written, the training goes on without it.
    """

    def __init__(self, path: Path | None, steps: int, until_step: int) -> None:
        self.path, self.steps, self.until_step = path, steps, until_step
        self._measured = ""
        self._next_write_s = 0.0
        self._start: tuple[float, int] | None = None

    def measure(self, measured: str) -> None:
        """Keep the measure to write next."""
        self._measured = measured

    def update(self, step: int, seconds: float) -> None:
        """Write how many steps are taken, and the seconds that they took, if it is time."""
        now_s = time.monotonic()
        if self._start is None or step < self._start[1]:  # a training that diverged has gone back
            self._start = (now_s, step)
        if self.path is None or (now_s < self._next_write_s and step < self.until_step):
            return
        self._next_write_s = now_s + _SECONDS_BETWEEN_WRITES
        passed_s, taken = now_s - self._start[0], step - self._start[1]
        rate = round(taken / passed_s, 4) if taken and passed_s else 0.0
        progress = Progress(
            step, self.steps, self.until_step, self._measured, round(seconds, 2), rate
        )
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        with contextlib.suppress(OSError):
            temporary.write_text(json.dumps(asdict(progress)))
            temporary.replace(self.path)
