"""A training in progress: network, optimizer, engine and history, to be saved and restored."""

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from neuralfield.engines import Engine, make_engine
from neuralfield.nn.optimizers import make_optimizer
from neuralfield.nn.schedules import Schedule
from neuralfield.system.checkpoint import fingerprint
from neuralfield.system.device import Device, to_host
from neuralfield.system.errors import DivergenceError
from neuralfield.tasks.task import Task
from neuralfield.tasks.training_settings import log_spaced_steps
from neuralfield.version import ENGINE_VERSION

_HISTORY_ROWS = 200


@dataclass(frozen=True)
class Best:
    """The best of the networks that were looked at: those before the last step of each row.

    Attributes
    ----------
    step : int
        The steps that it had taken.
    loss : float
        Of the row's last step, where steps look at all samples: that is this network's own (but for
        what a step draws), however much the loss jumps. Else the mean of the row's steps, as each
        batch has a loss of its own.
    arrays : dict of name to ndarray
        The network's.
    """

    step: int
    loss: float
    arrays: dict[str, np.ndarray]


@dataclass(frozen=True)
class Rollback:
    """A divergence, and where the training went on from.

    Attributes
    ----------
    to_step : int
        Of the snapshot that it went back to.
    noticed_at_step : int
        When it was looked at and found; a card is not looked at after each step.
    found : str
        What was not finite.
    learning_rate_factor : float
        What the learning rate is multiplied by since then.
    """

    to_step: int
    noticed_at_step: int
    found: str
    learning_rate_factor: float


def training_fingerprint(task: Task, engine: Engine, device_kind: str) -> str:
    """A name for everything that the result of a training depends on."""
    return fingerprint(
        ENGINE_VERSION,
        task.identity(),
        task.training.described() | {"precision": engine.precision},
        engine.name,
        engine.variant,
        device_kind,
    )


class Trainer:
    """Takes steps, keeps the history, and turns itself into arrays and back.

    Parameters
    ----------
    task : Task
    device : Device
    engine : str
        See `neuralfield.engines.make_engine`.
    threads : int
    note : callable
        Told, in a line, whatever a user should know.

    Raises
    ------
    ConfigError
        Settings that do not go together.
    ResourceError
        Too little memory.
    """

    def __init__(
        self,
        task: Task,
        device: Device,
        engine: str,
        threads: int,
        note: Callable[[str], None],
    ) -> None:
        settings = task.training
        self.task, self.device = task, device
        dtype = "float64" if settings.precision == "float64" else "float32"
        self.network = task.fresh_network().to(device, dtype)
        self.optimizer = make_optimizer(
            settings.optimizer,
            self.network.parameters,
            hidden_matrices=self.network.hidden_matrices,
            momentum=settings.momentum,
            beta1=settings.beta1,
            beta2=settings.beta2,
            gradient_clip_norm=settings.gradient_clip_norm,
        )
        schedule = Schedule(
            settings.schedule,
            settings.learning_rate,
            settings.minimum_learning_rate,
            settings.steps,
            settings.epoch_offset,
            settings.warmup_steps,
        )
        self.objective = task.objective(self.network, self.optimizer, schedule, device, dtype)
        self._make_engine = partial(
            make_engine, engine, settings.precision, device=device, threads=threads
        )
        self.engine = self._make_engine(objective=self.objective, note=note)
        self.rollback: Rollback | None = None
        self.best: Best | None = None
        self._candidate: Best | None = None
        self.steps_taken = 0
        self.seconds = 0.0
        self.history: list[tuple[float, ...]] = []
        self.snapshot_steps = set(log_spaced_steps(settings.steps, settings.snapshots))
        self._row_steps = set(log_spaced_steps(settings.steps, _HISTORY_ROWS)) - {0}
        stops = self._row_steps | self.snapshot_steps
        if settings.keep_best:
            stops |= {step - 1 for step in self._row_steps}
        self._stops = sorted(stops)
        self._steps_since_row = 0
        self._note_candidate()

    @property
    def schedule(self) -> Schedule:
        """The learning rate at every step."""
        return self.objective.schedule

    @property
    def history_columns(self) -> tuple[str, ...]:
        """What each row of the history says."""
        return ("step", "seconds", "loss", self.task.measure.name, "learning_rate")

    def close(self) -> None:
        """Give back threads and memory."""
        self.engine.close()

    def steps_ahead(self, limit: int) -> int:
        """Steps up to the next row or snapshot, or to `limit`."""
        next_stop = self._stops[bisect_right(self._stops, self.steps_taken)]
        return min(next_stop, limit) - self.steps_taken

    def count_steps(self, count: int, seconds: float) -> bool:
        """Take note of steps that the engine has been told to take.

        Parameters
        ----------
        count : int
            At most `steps_ahead`.
        seconds : float
            What they took.

        Returns
        -------
        bool
            Whether the last one completed a row of the history.

        Raises
        ------
        DivergenceError
            The loss is not a finite number any more.
        """
        self.steps_taken += count
        self.seconds += seconds
        self._steps_since_row += count
        self._require_finite()
        is_row = self.steps_taken in self._row_steps
        if not is_row:  # else the row before has to be closed first
            self._note_candidate()
        return is_row

    def add_history_row(self) -> dict[str, float]:
        """Close the stretch since the row before, and say how it went."""
        total, _ = totals = to_host(self.engine.totals)
        loss, error = (totals / self._steps_since_row).tolist()
        measured = self.task.measure.of_mean_error(error)
        rate = self.schedule(self.steps_taken - 1)
        self.history.append((self.steps_taken, self.seconds, loss, measured, rate))
        if self._candidate is not None:
            sees_all = self.objective.batches.is_everything
            own_loss = float(total) - self._candidate.loss if sees_all else loss
            if self.best is None or own_loss < self.best.loss:
                self.best = replace(self._candidate, loss=own_loss)
        self._steps_since_row = 0
        self.engine.totals.fill(0)
        self._note_candidate()
        return dict(zip(self.history_columns, self.history[-1], strict=True))

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Everything to go on from here, as arrays and plain metadata.

        Raises
        ------
        DivergenceError
            A weight is not a finite number: such a state is not worth keeping.
        """
        self._require_finite()
        arrays = {f"network.{n}": to_host(a) for n, a in self.network.arrays.items()}
        arrays |= {f"optimizer.{n}": to_host(a) for n, a in self.optimizer.state.items()}
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise self._divergence("a weight is not a finite number")
        rows = np.array(self.history, dtype=np.float64).reshape(-1, len(self.history_columns))
        loss, error = to_host(self.engine.totals).tolist()
        metadata = {
            "steps_taken": self.steps_taken,
            "seconds": self.seconds,
            "steps_since_row": self._steps_since_row,
            "loss_since_row": loss,
            "error_since_row": error,
            "rollback": asdict(self.rollback) if self.rollback else None,
        }
        if self.best:
            arrays |= {f"best.{n}": array for n, array in self.best.arrays.items()}
            metadata["best"] = {"step": self.best.step, "loss": self.best.loss}
        return arrays | {"history": rows}, metadata

    def restore(self, arrays: dict[str, np.ndarray], metadata: dict[str, Any]) -> None:
        """Go back to what `state` gave."""
        if metadata.get("rollback"):
            self._lower_learning_rate(Rollback(**metadata["rollback"]))
        self.network.load(_with_prefix(arrays, "network."), "saved state")
        for name, array in _with_prefix(arrays, "optimizer.").items():
            self.optimizer.state[name][...] = self.device.asarray(array)
        if metadata.get("best"):
            self.best = Best(**metadata["best"], arrays=_with_prefix(arrays, "best."))
        self.history = [tuple(row) for row in arrays["history"].tolist()]
        self.steps_taken, self.seconds = metadata["steps_taken"], metadata["seconds"]
        self._steps_since_row = metadata["steps_since_row"]
        totals = [metadata["loss_since_row"], metadata["error_since_row"]]
        self.engine.totals[...] = self.device.asarray(totals)
        self._note_candidate()

    def roll_back(self, arrays: dict[str, np.ndarray], rollback: Rollback) -> None:
        """Go on from a snapshot, with a lower learning rate and an optimizer without memory.

        What is counted and averaged since the last row begins anew, and so does the search for
        the best network; the seconds go on.

        Parameters
        ----------
        arrays : dict of name to array
            The network's, after ``rollback.to_step`` steps.
        rollback : Rollback
        """
        self._lower_learning_rate(rollback)
        self.network.load(arrays, "snapshot")
        for array in self.optimizer.state.values():
            array.fill(0)
        self.steps_taken, self._steps_since_row = rollback.to_step, 0
        self.best = None  # whether it is of before depends on when the divergence was noticed
        self.history = [row for row in self.history if row[0] <= rollback.to_step]
        self._note_candidate()

    def _note_candidate(self) -> None:
        """Before the last step of a row, keep the network and the row's sum of losses so far."""
        self._candidate = None
        if self.task.training.keep_best and self.steps_taken + 1 in self._row_steps:
            arrays = {n: to_host(a).copy() for n, a in self.network.arrays.items()}
            self._candidate = Best(self.steps_taken, float(self.engine.totals[0]), arrays)

    def _lower_learning_rate(self, rollback: Rollback) -> None:
        """Make the engine anew: it keeps to the schedule that it was made with."""
        factor, full = rollback.learning_rate_factor, self.schedule
        lowered = replace(
            full,
            learning_rate=factor * full.learning_rate,
            minimum_learning_rate=factor * full.minimum_learning_rate,
        )
        self.rollback = rollback
        self.engine.close()
        self.objective = replace(self.objective, schedule=lowered)
        self.engine = self._make_engine(objective=self.objective, note=lambda line: None)

    def _require_finite(self) -> None:
        loss = float(self.engine.totals[0])  # waits for the steps
        if not math.isfinite(loss):
            raise self._divergence(f"the loss is {loss}")

    def _divergence(self, found: str) -> DivergenceError:
        configured, present = self.task.training.learning_rate, self.schedule.learning_rate
        return DivergenceError(
            f"training, step {self.steps_taken}",
            found,
            "a finite number",
            f"lower training.learning_rate, now {configured:g}: try {present / 3:.1g}",
        )


def _with_prefix(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
