"""Parts shared by the training scripts: the conditions of a job, its progress, and outputs."""

import contextlib
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from entry.job import paths_of, show_line
from entry.progress import Preview, ProgressFile, progress_path
from neuralfield.rendering.compiling import compile_ahead
from neuralfield.rendering.publishing import publishing
from neuralfield.system.copies import FOLDER_NAME
from neuralfield.system.device import available_cores, require_cores, select_device
from neuralfield.system.heat import HeatGuard, guard_gpu
from neuralfield.system.interruption import leaving_time_s
from neuralfield.tasks.task import Task
from neuralfield.training.budget import within_budget
from neuralfield.training.fit import fit
from neuralfield.training.loop import Execution
from neuralfield.training.trainer import Trainer

log = logging.getLogger(__name__)

_SECONDS_BETWEEN_LINES = 5.0
"""Seconds between two lines in the log; the history has all rows."""


class ProgressLog:
    """The progress of a job's trainings: a line in the log every few seconds, and a progress file.

    For the file see `entry.progress.ProgressFile`. Messages to the user begin with `name`.
    """

    def __init__(self, name: str, steps: int, log_path: Path | None) -> None:
        self.name, self.steps = name, steps
        path = progress_path(log_path) if log_path else None
        self.file = ProgressFile(path, steps)
        self.next_line_s = 0.0

    def row(self, step: int, measured: str, details: str) -> None:
        """Record a row of the history: `measured` goes to the file, and `details` to the log."""
        self.file.measure(measured)
        if time.monotonic() >= self.next_line_s or step == self.steps:
            self.next_line_s = time.monotonic() + _SECONDS_BETWEEN_LINES
            log.info(f"step {step:,} of {self.steps:,}: {details}")

    def stepped(self, trainers: Sequence[Trainer]) -> None:
        """Record the steps of the training that has taken the fewest."""
        last = min(trainers, key=lambda trainer: trainer.steps_taken)
        self.file.update(last.steps_taken, sum(trainer.seconds for trainer in trainers))

    def log(self, line: str, *, name: str | None = None) -> None:
        log.info(line if name is None else f"{name}: {line}")

    def say(self, line: str, *, name: str | None = None) -> None:
        """Report a line on the terminal and in the log; `name` is by default the training's."""
        self.log(line, name=name)
        show_line(f"{name or self.name}: {line}")


class JobConditions:
    """The conditions that all trainings of a job share; the job has to create them as it starts.

    An error is raised if the settings require more cores than are available, or a missing GPU.
    """

    def __init__(self, training: Mapping[str, Any], threads: int) -> None:
        self.training = training
        limit_s, margin_s = training.get("time_limit_s"), training["time_margin_s"]
        now_s = time.monotonic()
        self.leave_at_s = leaving_time_s(limit_s, margin_s, os.environ, started_s=now_s)
        if "threads" in training:  # checked here, because --cores may have lowered `threads`
            require_cores(training["threads"])
        self.cores = min(threads, available_cores())  # the command line may request more
        self.device = select_device(training["device"])

    def heat_guard(self, say: Callable[[str], None]) -> HeatGuard | None:
        return guard_gpu(self.training.get("max_temperature_celsius"), self.device, say)

    def execution(self, folder: Path, **others: Any) -> Execution:
        """Return the conditions of the training of a folder; `others` are those of its own."""
        return Execution(
            device=self.device,
            state_folder=folder / ".state",
            kept_folder=folder / FOLDER_NAME,
            engine=self.training.get("engine", "auto"),
            checkpoint_interval_s=self.training["checkpoint_interval_s"],
            leave_at_s=self.leave_at_s,
            **{"threads": self.cores, **others},
        )


def training_arguments(job: Any) -> dict[str, Any]:
    """Return the arguments of `train_task` for the job of a rule that trains one network."""
    training = {**job.params.training, **job.params.execution}
    return {
        "training": training,
        "folder": Path(job.params.state).parent,
        "threads": job.threads,
        "name": " / ".join(job.wildcards),
        "log_path": Path(job.log[0]),
        **paths_of(job.output),
    }


def train_task(
    make_task: Callable[[], Task],
    training: Mapping[str, Any],
    *,
    folder: Path,
    threads: int,
    name: str,
    log_path: Path | None = None,
    previews: bool = False,
    **outputs: Path,
) -> None:
    """Train, and write the `outputs` of `outputs_in`.

    The time that `make_task` takes to read the data counts towards the time limit. `folder` has the
    state to resume from. Results are kept beside it, and are published from there if the same
    training has finished before. Progress is written beside the job's log and, with `previews`,
    renders of the image, too.
    """
    with contextlib.ExitStack() as stack:
        conditions = JobConditions(training, threads)
        device, cores = conditions.device, conditions.cores
        task = make_task()
        stack.enter_context(compile_ahead(task, device))
        task, found, line = within_budget(task, training, device, cores, folder)
        steps, measure = task.training.steps, task.measure
        progress = ProgressLog(name, steps, log_path)

        def add_row(row: Mapping[str, float]) -> None:
            measured = measure.format.format(row[measure.name])
            details = f"loss {row['loss']:.6g}, {measured}, {row['seconds']:.1f} s"
            progress.row(int(row["step"]), measured, details)

        preview = None
        if log_path and previews:
            preview = Preview(log_path.with_suffix(".preview.png"), cores, device.kind)
        run = conditions.execution(
            folder,
            progress=add_row,
            say=progress.say,
            heat=conditions.heat_guard(progress.say),
            stepped=[progress.stepped, *([preview.update] if preview else [])],
        )
        if found:
            run.note(line)
            run.found_settings = found.training
        fit(task, run, publishing(outputs, run), outputs=outputs)
        if preview:
            preview.remove()
