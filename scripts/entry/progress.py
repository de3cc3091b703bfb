"""Progress files and preview images of trainings, which are written beside the job's log."""

import contextlib
import json
import logging
import math
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from neuralfield.training.trainer import Trainer

log = logging.getLogger(__name__)

_SECONDS_BETWEEN_WRITES = 0.5

_SECONDS_BETWEEN_PREVIEWS = 10.0
_FIRST_PREVIEW_S = {"cpu": 10.0, "gpu": 150.0}
"""Seconds before the first preview; on a GPU, its kernels may have to be compiled."""

_SHARE_OF_TIME = 0.02
"""Maximum share of the training's time that previews take."""

_MOST_PREVIEW_PX = 512
"""Maximum length of a preview's longer side."""


def progress_path(log: str | os.PathLike) -> Path:
    """Return the path of the progress file of the training that has this log."""
    return Path(log).with_suffix(".progress.json")


class ProgressFile:
    """A file with the progress of a training, written at most twice a second and at the end.

    The logger plugin `snakemake_logger_plugin_neuralfield` reads it. The file is replaced
    atomically, but not synced, because it is not needed after a crash.
    """

    def __init__(self, path: Path | None, steps: int = 0) -> None:
        self.path, self.steps = path, steps
        self.measured = ""  # the measure of the task with its unit
        self._next_write_s = 0.0
        self._start: tuple[float, int] | None = None

    def forget_rate(self) -> None:
        """Restart the measurement of this job's rate at the next update."""
        self._start = None

    def update(self, step: int, seconds: float) -> None:
        """Write the number of steps taken and their seconds, if the next write is due."""
        now_s = time.monotonic()
        if self._start is None or step < self._start[1]:  # a training that diverged was rolled back
            self._start = (now_s, step)
        if self.path is None or (now_s < self._next_write_s and step < self.steps):
            return
        self._next_write_s = now_s + _SECONDS_BETWEEN_WRITES
        passed_s, taken = now_s - self._start[0], step - self._start[1]
        progress = {
            "step": step,
            "steps": self.steps,
            "measured": self.measured,
            "seconds": round(seconds, 2),  # includes earlier attempts, unlike the rate
            "steps_per_s": round(taken / passed_s, 4) if taken and passed_s else 0.0,
        }
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        with contextlib.suppress(OSError):
            temporary.write_text(json.dumps(progress))
            temporary.replace(self.path)


class Preview:
    """A preview image of a training, written at most every ten seconds.

    Writing the preview only reads the network, so that the training's result does not depend on it.
    """

    def __init__(self, path: Path, threads: int, device_kind: str) -> None:
        self.path, self.threads = path, threads
        self._next_s = time.monotonic() + _FIRST_PREVIEW_S[device_kind]

    def update(self, trainers: "Sequence[Trainer]") -> None:
        """Write a preview of a single training if it is due; stop writing them after an error."""
        started_s = time.monotonic()
        if started_s < self._next_s:
            return
        (trainer,) = trainers
        try:
            self._write(trainer)
        except Exception as error:  # the training continues without previews after any error
            self._next_s = math.inf
            log.info("no preview: %s", error)
            return
        now_s = time.monotonic()
        pause_s = (now_s - started_s) / _SHARE_OF_TIME
        self._next_s = now_s + max(_SECONDS_BETWEEN_PREVIEWS, pause_s)

    def _write(self, trainer: "Trainer") -> None:
        # imported here, because most trainings end before their first preview
        from neuralfield.images import ImageData, write_image
        from neuralfield.rendering.render import render, size_for_longer_side

        model: Any = trainer.present_model()
        longer = min(max(model.width, model.height), _MOST_PREVIEW_PX)
        sides = size_for_longer_side(model, longer)
        values = render(model, *sides, device=trainer.device, samples=1, threads=self.threads)
        mode = "grey" if model.mode == "bilevel" else model.mode
        write_image(self.path, ImageData.from_values(values, mode, 8))

    def remove(self) -> None:
        """Remove the preview of a training that has ended, because its renders follow."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
