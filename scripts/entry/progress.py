"""The progress of a training, beside its log: a small file for the process that shows it, and a
preview of its image."""

import contextlib
import json
import logging
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:  # the process that shows the progress needs no engines
    from neuralfield.training.trainer import Trainer

log = logging.getLogger(__name__)

_SECONDS_BETWEEN_WRITES = 0.5
_LARGEST_BYTES = 10_000

_SECONDS_BETWEEN_PREVIEWS = 10.0
_SHARE_OF_TIME = 0.02
"""Previews take no more of the training's time than this share."""

_PASSES_OF_A_STEP = 3
"""One forwards, as in a render, and two backwards."""

_FIRST_COST_S = {"cpu": 0.2, "gpu": 3.0}
"""Assumed for a first preview at the least: kernels have to be loaded, or compiled on a GPU."""


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

    The file is renamed to its place, but not synced: it is of no use after a crash.
    """

    def __init__(self, path: Path | None, steps: int, until_step: int) -> None:
        self.path, self.steps, self.until_step = path, steps, until_step
        self._measured = ""
        self._next_write_s = 0.0
        self._start: tuple[float, int] | None = None

    def measure(self, measured: str) -> None:
        self._measured = measured

    def forget_rate(self) -> None:
        """Measure the rate of this job anew, from the next update on."""
        self._start = None

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


def preview_path(job_log: Path) -> Path:
    """Return the path of the preview of the training that has this log."""
    return job_log.with_suffix(".preview.png")


class Preview:
    """Writes a preview at most every ten seconds; none in a training that is over before.

    It only reads the network, so that the training's bytes do not depend on it. It is removed when
    the training ends well, because its renders follow; one that is interrupted leaves it.
    """

    def __init__(
        self, path: Path, threads: int, *, seconds_between: float = _SECONDS_BETWEEN_PREVIEWS
    ) -> None:
        self.path, self.threads, self.seconds_between = path, threads, seconds_between
        self._started_s = self._last_s = time.monotonic()
        self._cost_s, self._spent_s = 0.0, 0.0
        self._has_failed = False

    def update(self, trainers: "Sequence[Trainer]") -> None:
        """Write a preview of a single training, if it is time; where that fails, none any more."""
        now_s = time.monotonic()
        if self._has_failed or now_s - self._last_s < self.seconds_between:
            return
        (trainer,) = trainers
        spared_s = _SHARE_OF_TIME * (now_s - self._started_s) - self._spent_s
        if self.seconds_between and spared_s < (self._cost_s or self._expected_s(trainer)):
            return
        try:
            self._write(trainer)
        except Exception as error:  # whatever it is, the training can go on without
            self._has_failed = True
            log.info("no preview: %s", error)
        self._last_s = time.monotonic()
        self._cost_s = self._last_s - now_s
        self._spent_s += self._cost_s

    def _expected_s(self, trainer: "Trainer") -> float:
        """Estimate the time of a preview: that of a third of the steps over as many points."""
        task: Any = trainer.task
        settings, pixels = task.training, task.shape.width * task.shape.height
        points = min(settings.batch_pixels or pixels, pixels)
        if settings.supervision == "footprint":
            points *= settings.footprint_points
        step_s = trainer.seconds / max(1, trainer.steps_taken)
        return max(_FIRST_COST_S[trainer.device.kind], step_s * pixels / points / _PASSES_OF_A_STEP)

    def _write(self, trainer: "Trainer") -> None:
        # imported here, because most trainings have ended before they have a preview
        from neuralfield.images import ImageData, write_image
        from neuralfield.rendering.render import render

        model: Any = trainer.present_model()
        shape = model.shape
        values = render(
            model, shape.width, shape.height, device=trainer.device, samples=1, threads=self.threads
        )
        mode = "grey" if model.mode == "bilevel" else model.mode
        write_image(self.path, ImageData.from_values(values, mode, 8))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)
