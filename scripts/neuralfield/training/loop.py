"""The training loop: trainings that go on side by side, step for step; often it is one alone."""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from neuralfield.engines.batch import EngineBatch
from neuralfield.system.errors import DivergenceError
from neuralfield.system.interruption import StopSignals
from neuralfield.training.divergence import go_back
from neuralfield.training.run import Run
from neuralfield.training.snapshots import save_snapshot
from neuralfield.training.state import StateFolder
from neuralfield.training.trainer import Trainer

_CALL_S = 0.2
"""Steps are asked for in calls of about this length, so that a signal is soon answered."""


@dataclass
class Member:
    """One of the trainings that go on side by side.

    Attributes
    ----------
    trainer : Trainer
    folder : StateFolder
        Its own, as if it were alone.
    run : Run
    until_step : int
        Where it ends.
    failure : DivergenceError or None
        Why it went no further: it has diverged for the second time.
    new_row : dict or None
        Of the history; not told yet.
    """

    trainer: Trainer
    folder: StateFolder
    run: Run
    until_step: int
    failure: DivergenceError | None = None
    new_row: dict[str, float] | None = None

    @property
    def is_at_work(self) -> bool:
        """Whether there are steps that it will take."""
        return self.failure is None and self.trainer.steps_taken < self.until_step

    def account(self, count: int, seconds: float) -> None:
        """Do what is due after steps: rows of the history, snapshots, the state at its end.

        Parameters
        ----------
        count : int
            Steps that its engine has taken.
        seconds : float
            What they took.
        """
        with self._going_back():
            trainer = self.trainer
            if trainer.count_steps(count, seconds):
                self.new_row = trainer.add_history_row()
            if trainer.steps_taken in trainer.snapshot_steps:
                save_snapshot(trainer, self.folder)
            if trainer.steps_taken == self.until_step:
                self.folder.save(trainer.steps_taken, *trainer.state())

    def report(self) -> None:
        """Tell of the row of the history that the last steps have completed, if they have."""
        row, self.new_row = self.new_row, None
        if row is not None:
            self.run.progress(row)

    def save(self) -> None:
        """Save the state, to go on from in another process."""
        with self._going_back():
            self.folder.save(self.trainer.steps_taken, *self.trainer.state())

    @contextmanager
    def _going_back(self) -> Iterator[None]:
        """Go back where it has diverged, and give up the second time; no other member knows."""
        try:
            yield
        except DivergenceError as error:
            try:
                self.run.note(go_back(self.trainer, self.folder, error))
            except DivergenceError as second:
                self.failure = second


def advance_all(
    members: Sequence[Member], run: Run, engines: EngineBatch, stop: StopSignals
) -> None:
    """Take all members to their ends, except those that fail.

    Those with the fewest steps go on together, until they meet those that are ahead: after an
    interruption members may have been saved after different steps, and one that diverges goes back
    by itself. What a member computes does not depend on who goes with it.

    Parameters
    ----------
    members : sequence of Member
    run : Run
        Its device, interval and limits hold for all.
    engines : EngineBatch
    stop : StopSignals

    Raises
    ------
    Interrupted
        All states are saved.
    """
    last_saved_s = time.perf_counter()
    steps_per_s = 0.0  # of all members together
    while at_work := [member for member in members if member.is_at_work]:
        group, count = _those_behind(at_work)
        count = max(1, min(count, int(_CALL_S * steps_per_s / len(group))))
        steps_per_s = count * len(group) / _advance(group, count, engines)
        for member in group:
            member.report()
        is_late = time.perf_counter() - last_saved_s >= run.checkpoint_interval_s
        is_hot = run.heat is not None and run.heat.is_too_hot()
        asked_to_stop = bool(stop.received)
        if not (is_late or is_hot or asked_to_stop):
            continue
        still_at_work = [member for member in members if member.is_at_work]
        engines.each(lambda place, them=still_at_work: them[place].save(), len(still_at_work))
        last_saved_s = time.perf_counter()
        if run.heat and is_hot and still_at_work:
            run.heat.wait_until_cool(stop)
        if still_at_work:
            fewest = min(member.trainer.steps_taken for member in still_at_work)
            stop.raise_if_received(f"saved after step {fewest:,}")


def _those_behind(at_work: Sequence[Member]) -> tuple[list[Member], int]:
    """The members with the fewest steps, and how many they can take before something is due."""
    steps = {member.trainer.steps_taken for member in at_work}
    fewest = min(steps)
    group = [member for member in at_work if member.trainer.steps_taken == fewest]
    those_ahead = min(steps - {fewest}, default=math.inf)
    counts = [
        member.trainer.steps_ahead(int(min(member.until_step, those_ahead))) for member in group
    ]
    return group, min(*counts, *(member.trainer.engine.most_steps for member in group))


def _advance(group: Sequence[Member], count: int, engines: EngineBatch) -> float:
    """Take steps with all of a group, and do what is due; the seconds that it took."""
    started_s = time.perf_counter()
    engines.run(
        [member.trainer.engine for member in group],
        group[0].trainer.steps_taken,
        count,
        lambda place, seconds: group[place].account(count, seconds),
    )
    return time.perf_counter() - started_s
