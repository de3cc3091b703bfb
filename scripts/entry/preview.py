"""A preview of a training: its image as the network has it now, beside its log."""

import contextlib
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from neuralfield.training.trainer import Trainer

log = logging.getLogger(__name__)

_SECONDS_BETWEEN = 10.0
_SHARE_OF_TIME = 0.02
"""Previews take no more of the training's time than this share."""

_PASSES_OF_A_STEP = 3
"""One forwards, as in a render, and two backwards."""

_FIRST_COST_S = {"cpu": 0.2, "gpu": 3.0}
"""Assumed for a first preview at the least: kernels have to be loaded, or compiled on a GPU."""


def preview_path(job_log: Path) -> Path:
    """Return the path of the preview of the training that has this log."""
    return job_log.with_suffix(".preview.png")


class Preview:
    """Writes a preview at most every ten seconds; none in a training that is over before.

    It only reads the network, so that the training's bytes do not depend on it. It is removed when
    the training ends well, because its renders follow; one that is interrupted leaves it.
    """

    def __init__(
        self, path: Path, threads: int, *, seconds_between: float = _SECONDS_BETWEEN
    ) -> None:
        self.path, self.threads, self.seconds_between = path, threads, seconds_between
        self._started_s = self._last_s = time.monotonic()
        self._cost_s, self._spent_s = 0.0, 0.0
        self._has_failed = False

    def update(self, trainers: Sequence[Trainer]) -> None:
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

    def _expected_s(self, trainer: Trainer) -> float:
        """Estimate the time of a preview: that of a third of the steps over as many points."""
        task: Any = trainer.task
        settings, pixels = task.training, task.shape.width * task.shape.height
        points = min(settings.batch_pixels or pixels, pixels)
        if settings.supervision == "footprint":
            points *= settings.footprint_points
        step_s = trainer.seconds / max(1, trainer.steps_taken)
        return max(_FIRST_COST_S[trainer.device.kind], step_s * pixels / points / _PASSES_OF_A_STEP)

    def _write(self, trainer: Trainer) -> None:
        # imported here, because most trainings have ended before they have a preview
        from neuralfield.images import ImageData, write_image
        from neuralfield.rendering.render import render

        model: Any = trainer.present_model()
        shape = model.shape
        values = render(
            model,
            shape.width,
            shape.height,
            device=trainer.device,
            samples=1,
            threads=self.threads,
        )
        mode = "grey" if model.mode == "bilevel" else model.mode
        write_image(self.path, ImageData.from_values(values, mode, 8))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)
