"""Complete trainings, which can be resumed at any step and are published at the end."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from threadpoolctl import threadpool_limits

from neuralfield.engines import EngineBatch
from neuralfield.system.checkpoint import fingerprint
from neuralfield.system.copies import TRAINING, Copies
from neuralfield.system.device import keep_freed_memory, require_cores, require_memory
from neuralfield.system.errors import DivergenceError
from neuralfield.system.interruption import StopSignals
from neuralfield.tasks.task import Task
from neuralfield.training.loop import ActiveTraining, Execution, Publish, Training, train_all
from neuralfield.training.state import StateFolder
from neuralfield.training.trainer import Trainer, training_fingerprint

_WRITERS = 8
"""Number of threads that write the networks of a batch, because writing waits for the disk."""


def fit(
    task: Task,
    execution: Execution,
    publish: Publish,
    *,
    outputs: Mapping[str, Path] | None = None,
) -> None:
    """Train a task, resuming from the state of an interrupted attempt; see `Training`.

    Raises `Interrupted`, after the state is saved, if a signal was received or the time limit is
    near; `DivergenceError` the second time that the loss or a weight is not finite; `ResourceError`
    for more threads than cores, or too little memory.
    """
    fit_batch([Training(task, execution, publish, outputs=outputs)])


def fit_batch(
    trainings: Sequence[Training], side_by_side: int = 1, stop: StopSignals | None = None
) -> None:
    """Train several tasks together, step by step, with the same results as if trained alone.

    Each training has its own state folder, from which it can resume alone or in another batch. On a
    CPU, at most `side_by_side` trainings take steps at the same time, each with its own threads.
    `stop` is given by a process that does more than this call and has its own handlers of signals.

    Raises the errors of `fit`. If a training diverges for the second time, the others are completed
    and published before the error is raised.
    """
    execution = trainings[0].execution
    require_cores(execution.threads * side_by_side)
    with ExitStack() as stack:
        if execution.device.kind == "cpu":
            # each thread of the engine computes its own blocks; threads of the BLAS would compete
            stack.enter_context(threadpool_limits(limits=1))
            keep_freed_memory()
        stop = stop or stack.enter_context(StopSignals(execution.leave_at_s))
        active = [_make_active(trainings[0], stack)]
        one_bytes = sum(active[0].trainer.engine.memory_report().values())
        remedy = "put fewer networks into a batch (sweeps: batch)"
        require_memory(one_bytes * (len(trainings) - 1), execution.device, "training", remedy)
        active += [_make_active(training, stack) for training in trainings[1:]]
        # locked in the same order by every process, so that batches cannot deadlock
        for one in sorted(active, key=lambda one: one.folder.folder):
            stack.enter_context(one.folder.locked(stop))
        active = [one for one in active if not _restore(one)]
        if not active:
            return
        writers = stack.enter_context(ThreadPoolExecutor(_WRITERS))
        list(writers.map(_resume, active))
        engines = EngineBatch(execution.device, side_by_side)
        stack.callback(engines.close)
        train_all(active, execution, engines, stop)
        list(writers.map(_publish, [one for one in active if not one.failure]))
        _raise_failures(active)


def _make_active(training: Training, stack: ExitStack) -> ActiveTraining:
    task, execution = training.task, training.execution
    trainer = Trainer(task, execution.device, execution.engine, execution.threads, execution.note)
    stack.callback(trainer.close)
    name = training_fingerprint(task, trainer.engine, execution.device.kind)
    folder = StateFolder(execution.state_folder, name, execution.note, execution.warn)
    return ActiveTraining(training, trainer, folder)


def _restore(active: ActiveTraining) -> bool:
    """Restore the results of an identical training; return whether there were any."""
    training, copies = active.training, _copies(active)
    if copies is None or not copies.restore(training.outputs or {}):
        return False
    training.execution.say(
        f"restoring the results that are kept in {copies.folder}; no training is needed"
    )
    active.folder.remove()
    return True


def _publish(active: ActiveTraining) -> None:
    training, copies = active.training, _copies(active)
    training.publish(active.trainer, active.folder)
    if copies is not None and copies.store(training.outputs or {}):
        active.folder.remove()


def _copies(active: ActiveTraining) -> Copies | None:
    training = active.training
    folder = training.execution.kept_folder
    if folder is None or training.outputs is None:
        return None
    made_from = fingerprint(active.folder.fingerprint, training.task.record())
    return Copies(folder, TRAINING, made_from, training.execution.say)


def _raise_failures(trainings: Sequence[ActiveTraining]) -> None:
    failures = [(one.training.name, one.failure) for one in trainings if one.failure]
    if not failures:
        return
    name, error = failures[0]
    if not name:
        raise error
    where = f"{' and '.join(name for name, _ in failures)}: {error.where}"
    remedy = f"{error.remedy}; the other networks are trained and saved"
    raise DivergenceError(where, error.found, error.expected, remedy) from error


def _resume(active: ActiveTraining) -> None:
    """Resume from the latest state, or start with the initial network."""
    training, trainer, folder = active.training, active.trainer, active.folder
    folder.forget_other_runs()
    taken_snapshots = folder.whole_snapshots(trainer.present_model().load_snapshot)

    def usable(step: int) -> bool:
        missing = [s for s in trainer.snapshot_steps if s <= step and s not in taken_snapshots]
        return not missing

    found = folder.load_latest(usable)
    if found is None:
        trainer.save_snapshot(folder.snapshots)
        return
    step, arrays, metadata = found
    trainer.restore(arrays, metadata)
    active.saved_at_s = trainer.seconds
    if step < training.last_step:
        since = _since_rollback(trainer)
        training.execution.note(f"resuming from the state saved after step {step:,}{since}")


def _since_rollback(trainer: Trainer) -> str:
    """Describe a rollback, because the training may have been killed before it logged it."""
    rollback = trainer.rollback
    if rollback is None:
        return ""
    factor = f"{rollback.learning_rate_factor:g} times the learning rate"
    return f", with {factor} since it diverged and returned to step {rollback.to_step:,}"
