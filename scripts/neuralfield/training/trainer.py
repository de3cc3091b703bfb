"""Network, optimizer, engine and history of one training, which can be saved and restored."""

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from neuralfield.engines import Engine, make_engine
from neuralfield.nn.optimizers import make_optimizer
from neuralfield.nn.schedules import Schedule
from neuralfield.system.checkpoint import fingerprint, snapshot_path
from neuralfield.system.device import Device, to_host
from neuralfield.system.errors import DivergenceError
from neuralfield.tasks.stored_model import StoredModel
from neuralfield.tasks.task import Task
from neuralfield.tasks.training_settings import log_spaced_steps
from neuralfield.version import ENGINE_VERSION

_HISTORY_ROWS = 200


@dataclass(frozen=True)
class BestNetwork:
    """The network with the lowest loss among the candidates.

    Candidates are the networks before the last step of each history row.
    """

    step: int  # number of steps that the network was trained for
    loss: float
    """If batches contain all samples, the loss of the row's last step, which is the candidate's own
    loss, except for random sampling within a step. Otherwise the mean loss of the row's steps,
    because the loss varies between batches."""
    arrays: dict[str, np.ndarray]  # parameters and buffers of the network


@dataclass(frozen=True)
class Rollback:
    """A divergence, and the snapshot from which the training continued."""

    to_step: int  # step of the snapshot to which the training was rolled back
    noticed_at_step: int
    """The step at which the divergence was noticed; on a GPU, the loss is not read after each step.
    """
    found: str  # the value that was not finite
    learning_rate_factor: float  # factor on the learning rate since then


def training_fingerprint(task: Task, engine: Engine, device_kind: str) -> str:
    """Return a fingerprint of everything that the result of a training depends on."""
    return fingerprint(
        ENGINE_VERSION,
        task.identity(),
        task.training.described() | {"precision": engine.precision},
        engine.name,
        engine.variant,
        device_kind,
    )


class Trainer:
    """The state of a training: it counts steps, keeps the history, and can be saved and restored.

    `note` is called with lines for the user. Raises `ConfigError` for incompatible settings, and
    `ResourceError` for too little memory.
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
        self.task, self.device, self.threads = task, device, threads
        dtype = "float64" if settings.precision == "float64" else "float32"
        self.network = task.fresh_network().to(device, dtype)
        self.optimizer = make_optimizer(
            settings.optimizer,
            self.network.parameters,
            hidden_matrices=self.network.hidden_matrices,
            momentum=settings.momentum,
            beta1=settings.beta1,
            beta2=settings.beta2,
            epsilon=settings.epsilon,
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
        self.objective = task.objective(
            self.network,
            optimizer=self.optimizer,
            schedule=schedule,
            loss=settings.loss,
            huber_delta=settings.huber_delta,
            device=device,
            dtype=dtype,
        )
        self._make_engine = partial(
            make_engine, engine, settings.precision, device=device, threads=threads
        )
        self.engine = self._make_engine(objective=self.objective, note=note)
        self.rollback: Rollback | None = None
        self.best: BestNetwork | None = None
        self._candidate: BestNetwork | None = None
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
        return self.objective.schedule

    @property
    def history_columns(self) -> tuple[str, ...]:
        return ("step", "seconds", "loss", self.task.measure.name, "learning_rate")

    def close(self) -> None:
        self.engine.close()

    def steps_ahead(self, limit: int) -> int:
        """Return the number of steps until the next row or snapshot, or the step `limit`."""
        next_stop = self._stops[bisect_right(self._stops, self.steps_taken)]
        return min(next_stop, limit) - self.steps_taken

    def count_steps(
        self, count: int, seconds: float, totals: np.ndarray
    ) -> dict[str, float] | None:
        """Record `count` steps (at most `steps_ahead`) that the engine took in `seconds`.

        `totals` are the engine's totals since the last row of the history. Returns the row, by
        column, that the last step completes, if any. Raises `DivergenceError` if the loss is not
        finite.
        """
        self.steps_taken += count
        self.seconds += seconds
        self._steps_since_row += count
        if not math.isfinite(totals[0]):
            raise self._divergence(f"the loss is {float(totals[0])}")
        row = self._add_row(totals) if self.steps_taken in self._row_steps else None
        self._note_candidate()
        return row

    def _add_row(self, totals: np.ndarray) -> dict[str, float]:
        total, _ = totals
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
        return dict(zip(self.history_columns, self.history[-1], strict=True))

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return everything needed to resume, as arrays and plain metadata."""
        arrays = {f"network.{n}": to_host(a) for n, a in self.network.arrays.items()}
        arrays |= {f"optimizer.{n}": to_host(a) for n, a in self.optimizer.state.items()}
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
        if metadata.get("rollback"):
            self._lower_learning_rate(Rollback(**metadata["rollback"]))
        self.network.load(_with_prefix(arrays, "network."), "saved state")
        for name, array in _with_prefix(arrays, "optimizer.").items():
            self.optimizer.state[name][...] = self.device.asarray(array)
        if metadata.get("best"):
            self.best = BestNetwork(**metadata["best"], arrays=_with_prefix(arrays, "best."))
        self.history = [tuple(row) for row in arrays["history"].tolist()]
        self.steps_taken, self.seconds = metadata["steps_taken"], metadata["seconds"]
        self._steps_since_row = metadata["steps_since_row"]
        totals = [metadata["loss_since_row"], metadata["error_since_row"]]
        self.engine.totals[...] = self.device.asarray(totals)
        self._note_candidate()

    def roll_back(self, arrays: dict[str, np.ndarray], rollback: Rollback) -> None:
        """Continue from a snapshot with a lower learning rate and a zero state of the optimizer.

        Totals since the last row are discarded, and the search for the best network starts again;
        `seconds` is kept.
        """
        self._lower_learning_rate(rollback)
        self.network.load(arrays, "snapshot")
        for array in self.optimizer.state.values():
            array.fill(0)
        self.steps_taken, self._steps_since_row = rollback.to_step, 0
        self.best = None  # which network it is depends on when the divergence was noticed
        self.history = [row for row in self.history if row[0] <= rollback.to_step]
        self._note_candidate()

    def save_snapshot(self, folder: Path) -> None:
        """Write the current network as a snapshot to a folder.

        Raises `DivergenceError` if a weight or a moment of the optimizer is not finite.
        """
        arrays = [*self.network.arrays.values(), *self.optimizer.state.values()]
        if not all(np.isfinite(to_host(array)).all() for array in arrays):
            raise self._divergence("a weight is not a finite number")
        self.present_model().write(snapshot_path(folder, self.steps_taken))

    def present_model(self) -> StoredModel[Any]:
        arrays = {name: to_host(array).copy() for name, array in self.network.arrays.items()}
        model: Any = self.task.model
        return replace(model, arrays=arrays, metadata=self._network_record())

    def _network_record(self) -> dict[str, Any]:
        record = self.task.record() | {
            "step": self.steps_taken,
            "training": self.task.training.described(),
            "engine": self.engine.name,
            "device": self.device.kind,
            "precision": self.engine.precision,
        }
        if self.rollback:
            record["rolled_back_to_step"] = self.rollback.to_step
            record["learning_rate_factor"] = self.rollback.learning_rate_factor
        return record

    def _note_candidate(self) -> None:
        """Store the network and the row's total loss if the next step is the last of a row."""
        self._candidate = None
        if self.task.training.keep_best and self.steps_taken + 1 in self._row_steps:
            arrays = {n: to_host(a).copy() for n, a in self.network.arrays.items()}
            self._candidate = BestNetwork(self.steps_taken, float(self.engine.totals[0]), arrays)

    def _lower_learning_rate(self, rollback: Rollback) -> None:
        """Lower the learning rate with a new engine, because an engine's schedule is fixed."""
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
