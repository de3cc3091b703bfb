"""The training loop: one for every engine, field and picture, resumable at any step."""

import csv
import importlib.metadata
import io
import json
import platform
import shutil
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from neuralfield import __version__
from neuralfield.checkpoint import (
    list_snapshots,
    load_arrays,
    save_arrays,
    snapshot_path,
)
from neuralfield.device import Device, keep_freed_memory, require_cores
from neuralfield.errors import CheckpointError, DivergenceError
from neuralfield.files import write_atomically
from neuralfield.interruption import StopSignals
from neuralfield.model import save_model
from neuralfield.state import StateFolder
from neuralfield.trainer import HISTORY_COLUMNS, Task, Trainer

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
    """

    device: Device
    state_folder: Path
    engine: str = "auto"
    threads: int = 1
    checkpoint_interval_s: float = 30.0
    progress: Progress = lambda row: None
    say: Callable[[str], None] = print
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
        SIGTERM, SIGINT or SIGUSR1 came; the state is saved.
    DivergenceError
        The loss stopped being finite; the last good state and snapshots are kept.
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
        stop = stack.enter_context(StopSignals())
        trainer = Trainer(task, run.device, run.engine, run.threads, run.note)
        stack.callback(trainer.engine.close)
        name = task.fingerprint(trainer.engine, run.device.kind)
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
    taken_snapshots = [step for step, _ in list_snapshots(folder.snapshots)]

    def usable(step: int) -> bool:
        missing = [s for s in trainer.snapshot_steps if s <= step and s not in taken_snapshots]
        return step <= until_step and not missing

    found = folder.load_latest(usable)
    if found:
        step, arrays, metadata = found
        trainer.restore(arrays, metadata)
        if step < until_step:
            run.note(f"going on from the state saved after step {step:,}")
        return
    if earlier_segment is None:
        _save_snapshot(trainer, folder)
        return
    arrays, metadata = load_arrays(earlier_segment / "state.safetensors")
    if metadata["run"] != folder.run:
        found_text, expected = f"run {metadata['run']}", f"run {folder.run}, this training"
        remedy = f"remove {earlier_segment} and run again"
        raise CheckpointError(str(earlier_segment), found_text, expected, remedy)
    trainer.restore(arrays, metadata)
    for step, path in list_snapshots(earlier_segment / "snapshots"):
        write_atomically(snapshot_path(folder.snapshots, step), path.read_bytes())


def _advance(
    trainer: Trainer, folder: StateFolder, run: Run, stop: StopSignals, until_step: int
) -> None:
    last_saved_s = lap_s = time.perf_counter()

    def close_lap() -> None:
        nonlocal lap_s
        run.device.synchronize()
        trainer.seconds += time.perf_counter() - lap_s

    try:
        while trainer.steps_taken < until_step:
            is_row = trainer.advance(until_step)
            is_snapshot = trainer.steps_taken in trainer.snapshot_steps
            is_late = time.perf_counter() - last_saved_s >= run.checkpoint_interval_s
            if not (is_row or is_snapshot or is_late or stop.received):
                continue
            close_lap()
            if is_row:
                run.progress(trainer.add_history_row())
            if is_snapshot:
                _save_snapshot(trainer, folder)
            if is_late or stop.received or trainer.steps_taken == until_step:
                folder.save(trainer.steps_taken, *trainer.state())
                last_saved_s = time.perf_counter()
                if trainer.steps_taken < until_step:
                    stop.raise_if_received(f"saved after step {trainer.steps_taken:,}")
            lap_s = time.perf_counter()
    except DivergenceError as error:
        good = list_snapshots(folder.snapshots)[-1][1]
        remedy = f"{error.remedy}; the last good snapshot is {good}"
        raise DivergenceError(error.where, error.found, error.expected, remedy) from None


def _save_snapshot(trainer: Trainer, folder: StateFolder) -> None:
    trainer.state()  # refuses a network that is not finite
    _save_network(trainer, snapshot_path(folder.snapshots, trainer.steps_taken))


def _save_network(trainer: Trainer, path: Path) -> None:
    task = trainer.task
    record = {
        "step": trainer.steps_taken,
        "training": asdict(task.training),
        "footprint": task.training.supervision == "footprint",
        "engine": trainer.engine.name,
        "device": trainer.device.kind,
        "precision": trainer.engine.precision,
    }
    save_model(path, trainer.network, task.field, task.shape, task.mode, record)


def publish_segment(trainer: Trainer, folder: StateFolder, *, segment_folder: Path) -> None:
    """Write what the next segment starts from: the state, and all snapshots so far."""
    arrays, metadata = trainer.state()
    _copy_snapshots(folder, segment_folder / "snapshots")
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
    _copy_snapshots(folder, checkpoints)
    _save_network(trainer, model)
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(HISTORY_COLUMNS)
    for step, *numbers in trainer.history:
        writer.writerow([int(step), *(f"{number:.9g}" for number in numbers)])
    write_atomically(history, table.getvalue().encode())
    write_atomically(record, (json.dumps(_record(trainer, run), indent=2) + "\n").encode())


def _copy_snapshots(folder: StateFolder, target: Path) -> None:
    if target.exists():
        shutil.rmtree(target)
    target.mkdir(parents=True)
    for _, path in list_snapshots(folder.snapshots):
        shutil.copyfile(path, target / path.name)


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
        "versions": versions,
        "notes": run.notes,
    }
