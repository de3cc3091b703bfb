"""The training loop, for a single training or several trainings that take steps together."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from neuralfield.engines import Call, EngineBatch
from neuralfield.system.checkpoint import list_snapshots, load_arrays
from neuralfield.system.device import Device
from neuralfield.system.errors import DivergenceError
from neuralfield.system.heat import HeatGuard
from neuralfield.system.interruption import StopSignals
from neuralfield.tasks.stored_model import StoredModel
from neuralfield.tasks.task import Task
from neuralfield.training.state import StateFolder
from neuralfield.training.trainer import Rollback, Trainer

LEARNING_RATE_FACTOR = 0.1
"""Factor on the learning rate after a divergence. After a rollback, Adam's moments are zero, and
its first steps are about three times as long as later ones; with this factor they remain smaller
than with the rate that was too high."""

_CALL_S = 0.2
"""Target duration of one call to an engine, in seconds, so that signals are handled soon."""

Finish = Callable[[Trainer, StoredModel[Any]], StoredModel[Any]]
"""A function that returns the model to write for a finished network."""


@dataclass(kw_only=True)
class Training:
    """A task to train, the folder of its outputs, and the conditions of the training.

    The result does not depend on the conditions. The state to resume from is in the subfolder
    ``.state``, because a workflow manager deletes the outputs of a failed job.
    """

    task: Task
    folder: Path
    device: Device
    engine: str = "auto"  # ``auto`` or an engine's name
    threads: int = 1  # CPU cores to use
    checkpoint_interval_s: float = 30.0  # longest time between two saved states
    leave_at_s: float = math.inf  # time of `time.monotonic` at which to save and leave
    heat: HeatGuard | None = None  # pauses the training while the GPU is too hot
    finish: Finish = lambda trainer, model: model
    """Needed if the file of the network contains more that depends on its weights."""
    stores_copies: bool = False
    """Whether copies of the outputs are stored in the subfolder ``.kept``, from which they are
    restored, without training, if the same training has ended before."""
    name: str = ""  # name of the training in errors, if it is one of several
    say: Callable[[str], None] = print  # called with a line for the user
    say_loudly: Callable[[str], None] | None = None
    """Called instead of `say` with a line that users must not miss; None means `say`."""
    progress: Callable[[dict[str, float]], None] = lambda row: None
    """Called with each new row of the history, as a mapping of its columns."""
    stepped: Sequence[Callable[[Sequence[Trainer]], None]] = ()
    """Called with the trainers after each call to the engine; they must not change the trainers."""
    # for the record of the training: settings that were found for a budget, and lines
    found_settings: Mapping[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def last_step(self) -> int:
        return self.task.training.steps

    def note(self, line: str) -> None:
        """Log a line and keep it for the record."""
        self.notes.append(line)
        self.say(line)

    def warn(self, line: str) -> None:
        """Log a line that users must not miss, and keep it for the record."""
        self.notes.append(line)
        (self.say_loudly or self.say)(line)


@dataclass
class ActiveTraining:
    """A training in progress."""

    training: Training
    trainer: Trainer
    folder: StateFolder
    failure: DivergenceError | None = None
    """The error of a second divergence, after which the training takes no more steps."""
    new_row: dict[str, float] | None = None
    """A completed row of the history that has not been reported yet."""
    saved_at_s: float = 0.0
    """The trainer's `seconds` when its state was last saved."""

    @property
    def is_unfinished(self) -> bool:
        """Whether the training will take more steps."""
        return self.failure is None and self.trainer.steps_taken < self.training.last_step

    def next_call(self, most: int) -> Call:
        """Return the next steps of the engine: at most `most`, up to the next row or snapshot."""
        trainer = self.trainer
        ahead = trainer.steps_ahead(self.training.last_step)
        return trainer.engine, trainer.steps_taken, min(ahead, trainer.engine.most_steps, most)

    def account(self, count: int, seconds: float, totals: np.ndarray) -> None:
        """Record steps of the engine: add a history row, and save a snapshot and the last state."""
        with self._rolling_back():
            trainer = self.trainer
            self.new_row = trainer.count_steps(count, seconds, totals)
            if trainer.steps_taken in trainer.snapshot_steps:
                trainer.save_snapshot(self.folder.snapshots)
            is_last = trainer.steps_taken == self.training.last_step
            unsaved_s = trainer.seconds - self.saved_at_s
            # the last state is needed only if publishing fails
            if is_last and unsaved_s >= self.training.checkpoint_interval_s:
                self.save()

    def report(self) -> None:
        row, self.new_row = self.new_row, None
        if row is not None:
            self.training.progress(row)

    def save(self) -> None:
        self.folder.save(self.trainer.steps_taken, *self.trainer.state())
        self.saved_at_s = self.trainer.seconds

    @contextmanager
    def _rolling_back(self) -> Iterator[None]:
        """Roll back after the first divergence; after the second, stop only this training."""
        try:
            yield
        except DivergenceError as error:
            try:
                self.training.warn(go_back(self.trainer, self.folder, error))
            except DivergenceError as second:
                self.failure = second


def train_all(trainings: Sequence[ActiveTraining], engines: EngineBatch, stop: StopSignals) -> None:
    """Train all trainings to their last step, except those that fail.

    They may be at different steps after an interruption or a divergence. Raises `Interrupted` after
    all states are saved.
    """
    shared = trainings[0].training
    last_saved_s = time.perf_counter()
    steps_per_s = 0.0  # of all trainings together
    while unfinished := [training for training in trainings if training.is_unfinished]:
        most = max(1, int(_CALL_S * steps_per_s / len(unfinished)))
        steps_per_s = _take_steps(unfinished, most, engines)
        for training in unfinished:
            training.report()
        for watch in shared.stepped:
            watch([training.trainer for training in trainings])
        is_late = time.perf_counter() - last_saved_s >= shared.checkpoint_interval_s
        is_hot = shared.heat is not None and shared.heat.is_too_hot()
        asked_to_stop = bool(stop.received)
        if not (is_late or is_hot or asked_to_stop):
            continue
        unfinished = [training for training in trainings if training.is_unfinished]
        engines.each(lambda place, them=unfinished: them[place].save(), len(unfinished))
        last_saved_s = time.perf_counter()
        if shared.heat and is_hot and unfinished:
            shared.heat.wait_until_cool(stop)
        if unfinished:
            fewest = min(training.trainer.steps_taken for training in unfinished)
            stop.raise_if_received(f"saved after step {fewest:,}")


def _take_steps(trainings: Sequence[ActiveTraining], most: int, engines: EngineBatch) -> float:
    """Take at most `most` steps with each training, and return the steps per second."""
    calls = [one.next_call(most) for one in trainings]
    counts = [count for *_, count in calls]
    started_s = time.perf_counter()
    engines.run(calls, lambda place, *measured: trainings[place].account(counts[place], *measured))
    return sum(counts) / (time.perf_counter() - started_s)


SNAPSHOT_IS = "; the last good snapshot is "
"""Words in the remedy of a training that diverged twice, before the path of a file."""


def go_back(trainer: Trainer, folder: StateFolder, error: DivergenceError) -> str:
    """Roll back to the last good snapshot, lower the learning rate, and return a line for the user.

    This is done once; the second time, `DivergenceError` is raised. The step of the rollback
    depends only on snapshots, which are saved after the same steps in every attempt, and not on
    states, which are saved at time intervals. A training that diverged therefore ends with the same
    bytes, even if it is killed and resumed.
    """
    to_step, path = _last_good_snapshot(trainer, folder.snapshots, error)
    if trainer.rollback:
        found = (
            f"{error.found}, even after returning to step {trainer.rollback.to_step:,}"
            f" and continuing with {LEARNING_RATE_FACTOR:g} times the learning rate"
        )
        remedy = f"{error.remedy}{SNAPSHOT_IS}{path}"
        raise DivergenceError(error.where, found, error.expected, remedy)
    rollback = Rollback(to_step, trainer.steps_taken, str(error.found), LEARNING_RATE_FACTOR)
    trainer.roll_back(load_arrays(path)[0], rollback)
    folder.save(trainer.steps_taken, *trainer.state())
    return (
        f"{error.where}: {error.found}; returning to step {to_step:,} and continuing with"
        f" {LEARNING_RATE_FACTOR:g} times the learning rate"
    )


def _last_good_snapshot(trainer: Trainer, folder: Path, error: DivergenceError) -> tuple[int, Path]:
    """Return step and path of the newest snapshot after which the loss was no larger than at first.

    Finite weights are not a sufficient criterion, because a loss grows for many steps before it
    overflows. The loss after a snapshot is that of the next row of the history.
    """
    if not trainer.history:
        found = f"{error.found}, and the untrained network's values are not finite either"
        remedy = "change the settings of the network: frequencies, scales and widths"
        raise DivergenceError(error.where, found, error.expected, remedy)
    first_loss, start, good = trainer.history[0][2], 0, {0}
    for end, _, loss, *_ in trainer.history:
        if loss <= first_loss:
            good.update(range(start, int(end)))
        start = int(end)
    taken = [(step, path) for step, path in list_snapshots(folder) if step in good]
    if not taken:  # another process has removed them
        raise error
    return taken[-1]
