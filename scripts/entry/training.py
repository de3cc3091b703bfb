"""Parts shared by the training scripts: the conditions of a job, its progress, and outputs."""

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from entry.job import show_line
from entry.progress import Preview, ProgressFile, progress_path
from entry.records import names_of
from neuralfield.rendering.finishing import compile_ahead, finished_model
from neuralfield.system.device import available_cores, require_cores, select_device
from neuralfield.system.heat import HeatGuard, guard_gpu
from neuralfield.system.interruption import leaving_time_s
from neuralfield.tasks.task import PSNR_DB, Measure, Task
from neuralfield.training.budget import apply_budget
from neuralfield.training.fit import fit
from neuralfield.training.loop import Training
from neuralfield.training.trainer import Trainer

log = logging.getLogger(__name__)

_SECONDS_BETWEEN_LINES = 5.0
"""Seconds between two lines in the log; the history has all rows."""


class ProgressLog:
    """The progress of a job's trainings: a line in the log every few seconds, and a progress file.

    For the file see `entry.progress.ProgressFile`. Messages to the user begin with `name`.
    """

    def __init__(self, name: str, log_path: Path | None, measure: Measure = PSNR_DB) -> None:
        self.name, self.measure = name, measure
        self.steps_before = 0  # of trainings that have ended
        self.file = ProgressFile(progress_path(log_path) if log_path else None)
        self._rows: dict[str, Mapping[str, float]] = {}
        self._next_line_s = 0.0

    def add_row(self, row: Mapping[str, float], *, network: str = "") -> None:
        """Record a row of the history of a network."""
        self._rows[network] = row
        values = [row[self.measure.name] for row in self._rows.values()]
        measured = self.measure.format.format(max(values))
        if len(values) > 1:
            measured = f"{min(values):.2f} to {measured}"
        self.file.measured = measured
        step = self.steps_before + int(min(row["step"] for row in self._rows.values()))
        if time.monotonic() >= self._next_line_s or step == self.file.steps:
            self._next_line_s = time.monotonic() + _SECONDS_BETWEEN_LINES
            details = f"loss {row['loss']:.6g}, {measured}, {row['seconds']:.1f} s"
            log.info(f"step {step:,} of {self.file.steps:,}: {details}")

    def stepped(self, trainers: Sequence[Trainer]) -> None:
        """Record the steps of the training that has taken the fewest."""
        last = min(trainers, key=lambda trainer: trainer.steps_taken)
        self.file.update(last.steps_taken, sum(trainer.seconds for trainer in trainers))

    def say(self, line: str, *, name: str | None = None, is_shown: bool = True) -> None:
        """Report a line in the log and on the terminal; `name` is by default the training's."""
        log.info(line if name is None else f"{name}: {line}")
        if is_shown:
            show_line(f"{name or self.name}: {line}")


class JobConditions:
    """The conditions that all trainings of a job share; the job has to create them as it starts.

    `settings` are those in the section `training` of the config. An error is raised if they require
    more cores than are available, or a missing GPU.
    """

    def __init__(self, settings: Mapping[str, Any], threads: int) -> None:
        self.settings = settings
        limit_s, margin_s = settings.get("time_limit_s"), settings["time_margin_s"]
        now_s = time.monotonic()
        self.leave_at_s = leaving_time_s(limit_s, margin_s, os.environ, started_s=now_s)
        if "threads" in settings:  # checked here, because --cores may have lowered `threads`
            require_cores(settings["threads"])
        self.cores = min(threads, available_cores())  # the command line may request more
        self.device = select_device(settings["device"])

    def heat_guard(self, say: Callable[[str], None]) -> HeatGuard | None:
        return guard_gpu(self.settings.get("max_temperature_celsius"), self.device, say)

    def training(self, task: Task, folder: Path, **others: Any) -> Training:
        """Return the training of a task; `others` are the conditions of this training only."""
        return Training(
            task=task,
            folder=folder,
            device=self.device,
            engine=self.settings.get("engine", "auto"),
            checkpoint_interval_s=self.settings["checkpoint_interval_s"],
            leave_at_s=self.leave_at_s,
            finish=finished_model,
            stores_copies=True,
            **{"threads": self.cores, **others},
        )


def train_task(
    make_task: Callable[[], Task],
    model: Path,
    training: Mapping[str, Any],
    threads: int,
    log_path: Path | None = None,
    *,
    previews: bool = False,
) -> None:
    """Train, and write `model` and the other outputs in its folder; see `training.loop.Training`.

    The time that `make_task` takes to read the data counts towards the time limit. Progress is
    written beside the job's log and, with `previews`, renders of the image, too.
    """
    conditions = JobConditions(training, threads)
    task = make_task()
    name = " / ".join(names_of(model.parent).values())
    progress = ProgressLog(name, log_path, task.measure)
    preview = None
    if log_path and previews:
        path = log_path.with_suffix(".preview.png")
        preview = Preview(path, conditions.cores, conditions.device.kind)
    run = conditions.training(
        task,
        model.parent,
        progress=progress.add_row,
        say=progress.say,
        heat=conditions.heat_guard(progress.say),
        stepped=[progress.stepped, *([preview.update] if preview else [])],
    )
    with compile_ahead(task, conditions.device):
        apply_budget(run, training)
        progress.file.steps = run.last_step
        fit([run])
    if preview:
        preview.remove()
