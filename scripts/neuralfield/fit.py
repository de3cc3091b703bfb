"""The training loop: one for every engine, network and task, resumable at any step."""

import csv
import importlib.metadata
import io
import json
import math
import platform
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from neuralfield import __version__
from neuralfield.checkpoint import (
    load_arrays,
    save_arrays,
    snapshot_path,
)
from neuralfield.device import Device, keep_freed_memory, require_cores, to_host
from neuralfield.divergence import go_back
from neuralfield.errors import CheckpointError, DivergenceError
from neuralfield.files import write_atomically
from neuralfield.heat import HeatGuard
from neuralfield.interruption import StopSignals
from neuralfield.state import SnapshotReader, StateFolder, copy_snapshots
from neuralfield.task import Task
from neuralfield.trainer import Trainer, training_fingerprint

Progress = Callable[[dict[str, float]], None]
"""Told a row of the history, as a mapping of its columns, whenever one is complete."""


@dataclass
class Run:
    """Where and with what a task is worked on: none of this changes the result.

    Attributes
    ----------
    device : Device
    state_folder : Path
        Beside the outputs, not one of them; kept for the next attempt.
    engine : str
        ``auto`` or an engine's name.
    threads : int
        CPU cores to use.
    checkpoint_interval_s : float
        At most this long between two saved states.
    progress : callable
    say : callable
        Told, in a line, whatever a user should know.
    leave_at_s : float
        When to save and leave, as `time.monotonic` has it.
    heat : HeatGuard, optional
        Pauses the training while the card is too hot.
    """

    device: Device
    state_folder: Path
    engine: str = "auto"
    threads: int = 1
    checkpoint_interval_s: float = 30.0
    progress: Progress = lambda row: None
    say: Callable[[str], None] = print
    leave_at_s: float = math.inf
    heat: HeatGuard | None = None
    notes: list[str] = field(default_factory=list)

    def note(self, line: str) -> None:
        """Say something and keep it for the record."""
        self.notes.append(line)
        self.say(line)


def fit(
    task: Task,
    run: Run,
    publish: Callable[[Trainer, StateFolder], None],
    *,
    until_step: int | None = None,
    earlier_segment: Path | None = None,
) -> None:
    """Train up to a step, going on from wherever an earlier attempt was interrupted.

    Parameters
    ----------
    task : Task
    run : Run
    publish : callable
        Writes the outputs, while no other process can be working on the same training.
    until_step : int, optional
        Where to stop; the last step by default.
    earlier_segment : Path, optional
        Folder written by `publish_segment`, to start from.

    Raises
    ------
    Interrupted
        SIGTERM, SIGINT or SIGUSR1 came, or it is time to leave; the state is saved.
    DivergenceError
        The loss or a weight stopped being finite for the second time; the last good state and
        snapshots are kept.
    ResourceError
        More threads than cores, or too little memory.
    """
    require_cores(run.threads)
    until_step = task.training.steps if until_step is None else until_step
    with ExitStack() as stack:
        if run.device.kind == "cpu":
            # cores are used by working on blocks side by side; a threaded BLAS would compete
            stack.enter_context(threadpool_limits(limits=1))
            keep_freed_memory()
        stop = stack.enter_context(StopSignals(run.leave_at_s))
        trainer = Trainer(task, run.device, run.engine, run.threads, run.note)
        stack.callback(trainer.close)
        name = training_fingerprint(task, trainer.engine, run.device.kind)
        folder = StateFolder(run.state_folder, name, run.note)
        stack.enter_context(folder.locked(stop))
        folder.forget_other_runs()
        _resume(trainer, folder, run, until_step, earlier_segment)
        _advance(trainer, folder, run, stop, until_step)
        publish(trainer, folder)


def _resume(
    trainer: Trainer,
    folder: StateFolder,
    run: Run,
    until_step: int,
    earlier_segment: Path | None,
) -> None:
    taken_snapshots = folder.whole_snapshots(_snapshot_reader(trainer))

    def usable(step: int) -> bool:
        missing = [s for s in trainer.snapshot_steps if s <= step and s not in taken_snapshots]
        return step <= until_step and not missing

    found = folder.load_latest(usable)
    if found:
        step, arrays, metadata = found
        trainer.restore(arrays, metadata)
        if step < until_step:
            run.note(f"going on from the state saved after step {step:,}{_since_rollback(trainer)}")
        return
    if earlier_segment is None:
        _save_snapshot(trainer, folder)
        return
    path = earlier_segment / "state.safetensors"
    arrays, metadata = load_arrays(path)
    if metadata.get("run") != folder.run:
        found_text, expected = f"run {metadata.get('run')}", f"run {folder.run}, this training"
        remedy = f"remove {earlier_segment} and run again"
        raise CheckpointError(str(path), found_text, expected, remedy)
    trainer.restore(arrays, metadata)
    taken = [step for step in trainer.snapshot_steps if step <= trainer.steps_taken]
    copy_snapshots(
        earlier_segment / "snapshots", folder.snapshots, taken, _snapshot_reader(trainer)
    )


def _since_rollback(trainer: Trainer) -> str:
    """What may not have been told, where the training was killed just then."""
    rollback = trainer.rollback
    if rollback is None:
        return ""
    factor = f"{rollback.learning_rate_factor:g} times the learning rate"
    return f", with {factor} since it diverged and went back to step {rollback.to_step:,}"


def _advance(
    trainer: Trainer, folder: StateFolder, run: Run, stop: StopSignals, until_step: int
) -> None:
    last_saved_s = lap_s = time.perf_counter()

    def close_lap() -> None:
        nonlocal lap_s
        run.device.synchronize()
        now_s = time.perf_counter()
        trainer.seconds += now_s - lap_s
        lap_s = now_s

    while trainer.steps_taken < until_step:
        try:
            is_row = trainer.advance(until_step)
            is_snapshot = trainer.steps_taken in trainer.snapshot_steps
            is_late = time.perf_counter() - last_saved_s >= run.checkpoint_interval_s
            is_hot = run.heat is not None and run.heat.is_too_hot()
            if not (is_row or is_snapshot or is_late or is_hot or stop.received):
                continue
            close_lap()
            if is_row:
                run.progress(trainer.add_history_row())
            if is_snapshot:
                _save_snapshot(trainer, folder)
            is_done = trainer.steps_taken == until_step
            if is_late or is_hot or stop.received or is_done:
                folder.save(trainer.steps_taken, *trainer.state())
                last_saved_s = time.perf_counter()
                if run.heat and is_hot and not is_done:
                    run.heat.wait_until_cool(stop)
                if not is_done:
                    stop.raise_if_received(f"saved after step {trainer.steps_taken:,}")
        except DivergenceError as error:
            close_lap()
            run.note(go_back(trainer, folder, error))
        lap_s = time.perf_counter()


def _save_snapshot(trainer: Trainer, folder: StateFolder) -> None:
    trainer.state()  # refuses a network that is not finite
    _save_network(trainer, snapshot_path(folder.snapshots, trainer.steps_taken))


def _save_network(trainer: Trainer, path: Path, **changes: int) -> None:
    trainer.task.save_network(path, trainer.network, _network_record(trainer) | changes)


def _save_best_network(trainer: Trainer, path: Path, run: Run) -> None:
    """Write the last network, or the best one where that is asked for."""
    if trainer.best is None:
        _save_network(trainer, path)
        return
    last = {name: to_host(array).copy() for name, array in trainer.network.arrays.items()}
    step, loss = trainer.best.step, trainer.best.loss
    run.note(f"saving the best network, of step {step:,} of {trainer.steps_taken:,}: loss {loss:g}")
    trainer.network.load(trainer.best.arrays, "best network")
    _save_network(trainer, path, step=step, best_of_steps=trainer.steps_taken)
    trainer.network.load(last, "last network")


def _snapshot_reader(trainer: Trainer) -> SnapshotReader:
    return partial(trainer.task.load_snapshot, record=_network_record(trainer))


def _network_record(trainer: Trainer) -> dict[str, Any]:
    """What a network's file says of how it was made."""
    task = trainer.task
    record = task.record() | {
        "step": trainer.steps_taken,
        "training": task.training.described(),
        "engine": trainer.engine.name,
        "device": trainer.device.kind,
        "precision": trainer.engine.precision,
    }
    if trainer.rollback:
        record["rolled_back_to_step"] = trainer.rollback.to_step
        record["learning_rate_factor"] = trainer.rollback.learning_rate_factor
    return record


def publish_segment(trainer: Trainer, folder: StateFolder, *, segment_folder: Path) -> None:
    """Write what the next segment starts from: the state, and all snapshots so far."""
    arrays, metadata = trainer.state()
    _publish_snapshots(trainer, folder, segment_folder / "snapshots")
    save_arrays(segment_folder / "state.safetensors", arrays, metadata | {"run": folder.run})


def publish_results(
    trainer: Trainer,
    folder: StateFolder,
    *,
    model: Path,
    history: Path,
    checkpoints: Path,
    record: Path,
    run: Run,
) -> None:
    """Write a finished training's outputs: network, history, snapshots, and how it was made."""
    _publish_snapshots(trainer, folder, checkpoints)
    _save_best_network(trainer, model, run)
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow([*trainer.history_columns, "rollbacks"])
    last_step_before = trainer.rollback.to_step if trainer.rollback else math.inf
    for step, *numbers in trainer.history:
        rollbacks = int(step > last_step_before)
        writer.writerow([int(step), *(f"{number:.9g}" for number in numbers), rollbacks])
    write_atomically(history, table.getvalue().encode())
    write_atomically(record, (json.dumps(_record(trainer, run), indent=2) + "\n").encode())


def _publish_snapshots(trainer: Trainer, folder: StateFolder, target: Path) -> None:
    """Leave just this training's snapshots in `target`, file by file: somebody may be reading."""
    steps = [step for step in trainer.snapshot_steps if step <= trainer.steps_taken]
    target.mkdir(parents=True, exist_ok=True)
    for path in set(target.iterdir()) - {snapshot_path(target, step) for step in steps}:
        path.unlink(missing_ok=True)
    copy_snapshots(folder.snapshots, target, steps, _snapshot_reader(trainer))


def _record(trainer: Trainer, run: Run) -> dict[str, Any]:
    rows = np.array([(0, 0.0), *((row[0], row[1]) for row in trainer.history)])
    steps, seconds = np.diff(rows, axis=0).T
    versions = {"neuralfield": __version__, "python": platform.python_version()}
    versions |= {"numpy": np.__version__}
    if run.device.kind == "gpu":
        versions["cupy"] = run.device.xp.__version__
    if trainer.engine.name == "cpu":
        versions["numba"] = importlib.metadata.version("numba")
    return {
        "device": run.device.name,
        "engine": trainer.engine.name,
        "engine_variant": trainer.engine.variant,
        "precision": trainer.engine.precision,
        "random_seed": trainer.task.training.random_seed,
        "steps": trainer.steps_taken,
        "train_seconds": round(trainer.seconds, 3),
        "step_microseconds": round(statistics.median(1e6 * seconds / steps), 1),
        "threads": run.threads,
        "parameters": trainer.network.parameter_count,
        "memory_bytes": trainer.engine.memory_report(),
        "final_loss": trainer.history[-1][2],
        "best_step": trainer.best.step if trainer.best else None,
        "rollback": asdict(trainer.rollback) if trainer.rollback else None,
        "versions": versions,
        "notes": run.notes,
    }
