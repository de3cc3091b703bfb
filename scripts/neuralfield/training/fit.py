"""Training from beginning to end: resumable at any step, and at the end published."""

import csv
import importlib.metadata
import io
import json
import math
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from neuralfield import __version__
from neuralfield.engines.batch import EngineBatch
from neuralfield.system.checkpoint import fingerprint, load_arrays, save_arrays, snapshot_path
from neuralfield.system.device import keep_freed_memory, require_cores, require_memory, to_host
from neuralfield.system.errors import CheckpointError, DivergenceError
from neuralfield.system.files import write_atomically
from neuralfield.system.interruption import StopSignals
from neuralfield.system.kept import KeptResults
from neuralfield.system.provenance import remedy_for, sha256_of
from neuralfield.tasks.task import Task
from neuralfield.training.loop import Member, advance_all
from neuralfield.training.run import Run
from neuralfield.training.snapshots import (
    save_network,
    save_snapshot,
    snapshot_reader,
)
from neuralfield.training.state import StateFolder, copy_snapshots
from neuralfield.training.trainer import Trainer, training_fingerprint

Publish = Callable[[Trainer, StateFolder], None]
"""Writes the outputs, while no other process can be working on the same training."""


@dataclass(frozen=True)
class Training:
    """A task to be trained, and what becomes of it.

    Attributes
    ----------
    task : Task
    run : Run
    publish : callable
    until_step : int, optional
        Where to stop; the last step by default.
    earlier_segment : Path, optional
        Folder written by `publish_segment`, to start from.
    name : str
        What an error calls it, where it is one of several.
    outputs : mapping of str to Path, optional
        The files and folders that `publish` writes, by name. They are kept in ``run.kept_folder``
        and published from there at once where the same training has ended before.
    """

    task: Task
    run: Run
    publish: Publish
    until_step: int | None = None
    earlier_segment: Path | None = None
    name: str = ""
    outputs: Mapping[str, Path] | None = None


def fit(
    task: Task,
    run: Run,
    publish: Publish,
    *,
    until_step: int | None = None,
    earlier_segment: Path | None = None,
    outputs: Mapping[str, Path] | None = None,
) -> None:
    """Train up to a step, going on from wherever an earlier attempt was interrupted.

    Parameters
    ----------
    task, run, publish, until_step, earlier_segment, outputs
        See `Training`.

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
    fit_batch([Training(task, run, publish, until_step, earlier_segment, outputs=outputs)])


def fit_batch(trainings: Sequence[Training], side_by_side: int = 1) -> None:
    """Train several tasks in lockstep; each ends with the bytes that it would have alone.

    Each has a state folder of its own, which it can go on from alone or in another batch.

    Parameters
    ----------
    trainings : sequence of Training
        Their runs have one device, engine, number of threads, interval and limit of time in common.
    side_by_side : int
        How many take steps at the same time, each with the threads of its run.

    Raises
    ------
    Interrupted
        As in `fit`; the states of all are saved.
    DivergenceError
        One has diverged for the second time; the others have been trained to their ends, and their
        states are saved. Only those are published that had ended before, and were kept.
    ResourceError
        More threads than cores, or too little memory.
    """
    run = trainings[0].run
    require_cores(run.threads * side_by_side)
    with ExitStack() as stack:
        if run.device.kind == "cpu":
            # cores are used by working on blocks side by side; a threaded BLAS would compete
            stack.enter_context(threadpool_limits(limits=1))
            keep_freed_memory()
        stop = stack.enter_context(StopSignals(run.leave_at_s))
        members = [_make_member(trainings[0], stack)]
        one_bytes = sum(members[0].trainer.engine.memory_report().values())
        remedy = "put fewer networks into a batch (sweeps: batch)"
        require_memory(one_bytes * (len(trainings) - 1), run.device, "training", remedy)
        members += [_make_member(training, stack) for training in trainings[1:]]
        # in one order everywhere, so that no two batches wait for each other
        for member in sorted(members, key=lambda member: member.folder.folder):
            stack.enter_context(member.folder.locked(stop))
        both = [
            (training, member)
            for training, member in zip(trainings, members, strict=True)
            if not _publish_kept(training, member)
        ]
        if not both:
            return
        trainings, members = map(list, zip(*both, strict=True))
        for training, member in both:
            member.folder.forget_other_runs()
            _resume(member, training.earlier_segment)
        engines = EngineBatch(run.device, side_by_side)
        stack.callback(engines.close)
        advance_all(members, run, engines, stop)
        _raise_failures(trainings, members)
        engines.each(lambda place: _publish(*both[place]), len(both))


def _make_member(training: Training, stack: ExitStack) -> Member:
    task, run = training.task, training.run
    trainer = Trainer(task, run.device, run.engine, run.threads, run.note)
    stack.callback(trainer.close)
    name = training_fingerprint(task, trainer.engine, run.device.kind)
    folder = StateFolder(run.state_folder, name, run.note)
    until_step = task.training.steps if training.until_step is None else training.until_step
    return Member(trainer, folder, run, until_step)


def _publish_kept(training: Training, member: Member) -> bool:
    """Publish what the same training has left when it ended before; whether there was anything."""
    kept = _kept_results(training, member)
    return kept is not None and kept.restore(training.outputs or {})


def _publish(training: Training, member: Member) -> None:
    training.publish(member.trainer, member.folder)
    kept = _kept_results(training, member)
    if kept is not None:
        is_last = member.until_step == training.task.training.steps
        kept.keep(training.outputs or {}, is_last=is_last)


def _kept_results(training: Training, member: Member) -> KeptResults | None:
    folder = training.run.kept_folder
    if folder is None or training.outputs is None:
        return None
    run = fingerprint(member.folder.run, training.task.record())
    return KeptResults(folder, run, member.until_step, training.run.say)


def _raise_failures(trainings: Sequence[Training], members: Sequence[Member]) -> None:
    failures = [(t.name, m.failure) for t, m in zip(trainings, members, strict=True) if m.failure]
    if not failures:
        return
    name, error = failures[0]
    if not name:
        raise error
    where = f"{' and '.join(name for name, _ in failures)}: {error.where}"
    remedy = f"{error.remedy}; the others are trained, and saved for the next attempt"
    raise DivergenceError(where, error.found, error.expected, remedy) from error


def _resume(member: Member, earlier_segment: Path | None) -> None:
    trainer, folder, run, until_step = member.trainer, member.folder, member.run, member.until_step
    taken_snapshots = folder.whole_snapshots(snapshot_reader(trainer))

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
        save_snapshot(trainer, folder)
        return
    path = earlier_segment / "state.safetensors"
    arrays, metadata = load_arrays(path)
    if metadata.get("run") != folder.run:
        found_text, expected = f"run {metadata.get('run')}", f"run {folder.run}, this training"
        raise CheckpointError(str(path), found_text, expected, remedy_for(path))
    trainer.restore(arrays, metadata)
    taken = [step for step in trainer.snapshot_steps if step <= trainer.steps_taken]
    copy_snapshots(earlier_segment / "snapshots", folder.snapshots, taken, snapshot_reader(trainer))


def _since_rollback(trainer: Trainer) -> str:
    """What may not have been told, where the training was killed just then."""
    rollback = trainer.rollback
    if rollback is None:
        return ""
    factor = f"{rollback.learning_rate_factor:g} times the learning rate"
    return f", with {factor} since it diverged and went back to step {rollback.to_step:,}"


def _save_best_network(trainer: Trainer, path: Path, run: Run) -> None:
    """Write the last network, or the best one where that is asked for."""
    if trainer.best is None:
        save_network(trainer, path)
        return
    last = {name: to_host(array).copy() for name, array in trainer.network.arrays.items()}
    step, loss = trainer.best.step, trainer.best.loss
    run.note(f"saving the best network, of step {step:,} of {trainer.steps_taken:,}: loss {loss:g}")
    trainer.network.load(trainer.best.arrays, "best network")
    save_network(trainer, path, step=step, best_of_steps=trainer.steps_taken)
    trainer.network.load(last, "last network")


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
    written = _record(trainer, run)
    written["sha256"] = {path.name: sha256_of(path) for path in (model, history)}
    write_atomically(record, (json.dumps(written, indent=2) + "\n").encode())


def _publish_snapshots(trainer: Trainer, folder: StateFolder, target: Path) -> None:
    """Leave just this training's snapshots in `target`, file by file: somebody may be reading."""
    steps = [step for step in trainer.snapshot_steps if step <= trainer.steps_taken]
    target.mkdir(parents=True, exist_ok=True)
    for path in set(target.iterdir()) - {snapshot_path(target, step) for step in steps}:
        path.unlink(missing_ok=True)
    copy_snapshots(folder.snapshots, target, steps, snapshot_reader(trainer))


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
