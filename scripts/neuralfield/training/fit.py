"""Complete trainings, which can be resumed at any step and are published at the end."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from neuralfield.engines import EngineBatch
from neuralfield.system.checkpoint import fingerprint
from neuralfield.system.copies import FOLDER_NAME, TRAINING, Copies
from neuralfield.system.device import (
    keep_freed_memory,
    limit_blas_to_one_core,
    require_cores,
    require_memory,
)
from neuralfield.system.errors import DivergenceError
from neuralfield.system.interruption import StopSignals
from neuralfield.training.loop import ActiveTraining, Training, train_all
from neuralfield.training.results import outputs_in, publish_results
from neuralfield.training.state import StateFolder
from neuralfield.training.trainer import Trainer, training_fingerprint

_WRITERS = 8
"""Number of threads that write the networks of a batch, because writing waits for the disk."""


def fit(
    trainings: Sequence[Training], side_by_side: int = 1, stop: StopSignals | None = None
) -> None:
    """Train several tasks together, with the same results as if each was trained alone.

    Each resumes from the state of an interrupted attempt, which may have been alone or in another
    batch. On a CPU, at most `side_by_side` trainings take steps at the same time, each with its own
    threads. The device, the time limit and what is called after steps are those of the first.
    `stop` is given by a process that does more than this call and has its own handlers of signals.

    Raises `Interrupted`, after all states are saved, if a signal was received or the time limit is
    near; `ResourceError` for more threads than cores, or too little memory; `DivergenceError` for
    the second time that the loss or a weight is not finite, after the other trainings are completed
    and published.
    """
    shared = trainings[0]
    require_cores(shared.threads * side_by_side)
    with ExitStack() as stack:
        if shared.device.kind == "cpu":
            # each thread of the engine computes its own blocks; threads of the BLAS would compete
            stack.enter_context(limit_blas_to_one_core())
            keep_freed_memory()
        stop = stop or stack.enter_context(StopSignals(shared.leave_at_s))
        active = [_make_active(trainings[0], stack)]
        one_bytes = sum(active[0].trainer.engine.memory_report().values())
        remedy = "put fewer networks into a batch (sweeps: batch)"
        require_memory(one_bytes * (len(trainings) - 1), shared.device, "training", remedy)
        active += [_make_active(training, stack) for training in trainings[1:]]
        # locked in the same order by every process, so that batches cannot deadlock
        for one in sorted(active, key=lambda one: one.folder.folder):
            stack.enter_context(one.folder.locked(stop))
        active = [one for one in active if not _restore(one)]
        if not active:
            return
        writers = stack.enter_context(ThreadPoolExecutor(_WRITERS))
        list(writers.map(_resume, active))
        engines = EngineBatch(shared.device, side_by_side)
        stack.callback(engines.close)
        train_all(active, engines, stop)
        list(writers.map(_publish, [one for one in active if not one.failure]))
        _raise_failures(active)


def _make_active(training: Training, stack: ExitStack) -> ActiveTraining:
    task, device = training.task, training.device
    trainer = Trainer(task, device, training.engine, training.threads, training.note)
    stack.callback(trainer.close)
    name = training_fingerprint(task, trainer.engine, device.kind)
    folder = StateFolder(training.folder / ".state", name, training.note, training.warn)
    return ActiveTraining(training, trainer, folder)


def _restore(active: ActiveTraining) -> bool:
    """Restore the results of an identical training; return whether there were any."""
    training, copies = active.training, _copies(active)
    if not training.stores_copies or not copies.restore(outputs_in(training.folder)):
        return False
    training.say(f"restoring the results that are kept in {copies.folder}; no training is needed")
    active.folder.remove()
    return True


def _publish(active: ActiveTraining) -> None:
    training = active.training
    publish_results(active.trainer, active.folder, training)
    if training.stores_copies and _copies(active).store(outputs_in(training.folder)):
        active.folder.remove()


def _copies(active: ActiveTraining) -> Copies:
    training = active.training
    made_from = fingerprint(active.folder.fingerprint, training.task.record())
    return Copies(training.folder / FOLDER_NAME, TRAINING, made_from, training.say)


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
        training.note(f"resuming from the state saved after step {step:,}")
