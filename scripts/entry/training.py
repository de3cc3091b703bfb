"""Functions shared by the training scripts: time limits, progress, and outputs."""

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from entry.job import paths_of, show_line
from entry.progress import Preview, ProgressFile, preview_path, progress_path
from neuralfield.rendering.compiling import compile_ahead
from neuralfield.rendering.publishing import publishing
from neuralfield.system.device import available_cores, require_cores, select_device
from neuralfield.system.errors import NeuralfieldError
from neuralfield.system.heat import guard_gpu
from neuralfield.system.interruption import Interrupted, TimeLimitReached, leaving_time_s
from neuralfield.system.kept import FOLDER_NAME, has_kept_results
from neuralfield.tasks.task import Measure, Task
from neuralfield.training.budget_file import within_budget
from neuralfield.training.fit import fit
from neuralfield.training.loop import Execution, Publish
from neuralfield.training.results import publish_segment
from neuralfield.training.trainer import Trainer

log = logging.getLogger(__name__)

_SECONDS_BETWEEN_LINES = 5.0
"""Seconds between two lines in the log; the history has all rows."""


class ProgressLog:
    """The progress of a job's trainings: a line in the log every few seconds, and a progress file.

    For the file see `entry.progress.ProgressFile`. Messages to the user begin with `name`.
    """

    def __init__(
        self, name: str, steps: int, until_step: int | None = None, file: Path | None = None
    ) -> None:
        self.name, self.steps = name, steps
        self.file = ProgressFile(file, steps, until_step or steps)
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


class TrainingProgress(ProgressLog):
    """The progress of one training, with its loss and the measure of its task."""

    def __init__(self, measure: Measure, *arguments: Any, **others: Any) -> None:
        super().__init__(*arguments, **others)
        self.measure = measure

    def __call__(self, row: Mapping[str, float]) -> None:
        measured = self.measure.format.format(row[self.measure.name])
        details = f"loss {row['loss']:.6g}, {measured}, {row['seconds']:.1f} s"
        self.row(int(row["step"]), measured, details)


def when_to_leave_s(training: Mapping[str, Any]) -> float:
    """Return the time at which a job that starts now has to exit, by `time.monotonic`."""
    return leaving_time_s(
        training.get("time_limit_s"),
        training["time_margin_s"],
        os.environ,
        started_s=time.monotonic(),
    )


def usable_cores(training: Mapping[str, Any], threads: int) -> int:
    """Return the number of cores that a job uses, after checking the number in the settings.

    An error is raised if the settings require more cores than are available.
    """
    if "threads" in training:  # checked here, because --cores may have lowered `threads`
        require_cores(training["threads"])
    return min(threads, available_cores())  # the command line may request more


@contextlib.contextmanager
def logging_kept_results(folders: Iterable[Path]) -> Iterator[None]:
    """Log which results of earlier trainings are still kept, if a training fails."""
    try:
        yield
    except NeuralfieldError:
        for folder in filter(has_kept_results, folders):
            log.info(
                f"{folder} keeps the results of the previous training; a training with the same"
                " settings and data restores them"
            )
        raise


@contextlib.contextmanager
def _naming_budgets(training: Mapping[str, Any]) -> Iterator[None]:
    """Suggest the setting `budget`, if the time limit interrupts a training."""
    try:
        yield
    except TimeLimitReached as pause:
        if "time_limit_s" not in training or training.get("segments") != 1:  # or a table
            raise
        instead = f"budget={training['time_limit_s']:g} ends with an image after that time"
        raise Interrupted(f"{pause}; {instead}") from pause


def training_arguments(job: Any) -> dict[str, Any]:
    """Return the arguments of `train_task` for the job of a rule that trains one network."""
    training = {**job.params.training, **job.params.execution}
    state = Path(job.params.state)
    return {
        "training": training,
        "state": state,
        "threads": job.threads,
        "name": " / ".join(text for key, text in job.wildcards.items() if key != "segment"),
        "log_path": Path(job.log[0]),
        "segment": int(job.wildcards.get("segment", training.get("segments", 1))),
        "earlier_segment": next(map(Path, job.input.get("earlier", ())), None),
        **paths_of(job.output),
    }


def train_task(
    make_task: Callable[[], Task],
    training: Mapping[str, Any],
    *,
    state: Path,
    threads: int,
    name: str,
    log_path: Path | None = None,
    previews: bool = False,
    segment: int = 1,
    earlier_segment: Path | None = None,
    segment_folder: Path | None = None,
    **outputs: Path,
) -> None:
    """Train until the end of a segment.

    The last segment writes `outputs`, see `outputs_in`; earlier segments write `segment_folder`.
    The time that `make_task` takes to read the data counts towards the time limit. `state` is the
    folder with the state to resume from. Results are kept beside it, and are published from there
    if the same training has finished before. Progress is written beside the job's log and, with
    `previews`, renders of the image, too.
    """
    leave_at_s = when_to_leave_s(training)
    cores = usable_cores(training, threads)
    kept_folder = state.with_name(FOLDER_NAME)
    with contextlib.ExitStack() as stack:
        stack.enter_context(logging_kept_results([kept_folder]))
        stack.enter_context(_naming_budgets(training))
        task = make_task()
        device = select_device(training["device"])
        if not segment_folder:
            stack.enter_context(compile_ahead(task, device))
        task, found, line = within_budget(task, training, device, cores, state.parent)
        steps = task.training.steps
        until_step = steps * segment // training.get("segments", 1)
        file = progress_path(log_path) if log_path else None
        progress = TrainingProgress(task.measure, name, steps, until_step, file)
        watchers = [progress.stepped]
        if log_path and previews:
            preview = stack.enter_context(Preview(preview_path(log_path), cores))
            watchers.append(preview.update)
        run = Execution(
            device,
            state / f"segment_{segment}",
            training.get("engine", "auto"),
            cores,
            training["checkpoint_interval_s"],
            progress,
            progress.say,
            leave_at_s,
            guard_gpu(training.get("max_temperature_celsius"), device, progress.say),
            kept_folder,
            stepped=watchers,
        )
        if found:
            run.note(line)
            run.found_settings = found.training
        publish: Publish
        if segment_folder:
            outputs = {"segment_folder": segment_folder}
            publish = partial(publish_segment, segment_folder=segment_folder)
        else:
            publish = publishing(outputs, run)
        earlier = earlier_segment
        fit(task, run, publish, until_step=until_step, earlier_segment=earlier, outputs=outputs)
