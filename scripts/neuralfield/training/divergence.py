"""What is done about a training that diverges: once, it goes back and on more carefully.

Where it goes back to depends on snapshots alone, which are taken after the same steps in every
attempt, and never on states, which are saved by the clock: killed and resumed at any moment, a
training that diverged ends with the same bytes.
"""

from pathlib import Path

import numpy as np

from neuralfield.system.checkpoint import list_snapshots, load_arrays
from neuralfield.system.errors import DivergenceError
from neuralfield.training.state import StateFolder
from neuralfield.training.trainer import Rollback, Trainer

LEARNING_RATE_FACTOR = 0.1
"""Low enough that Adam, whose first steps without a memory are about three times as long as later
ones, stays below the rate that was too high."""


def go_back(trainer: Trainer, folder: StateFolder, error: DivergenceError) -> str:
    """Go on from the last good snapshot with a lower learning rate, unless that was done before.

    Parameters
    ----------
    trainer : Trainer
        Diverged; changed in place, and its new state saved.
    folder : StateFolder
    error : DivergenceError
        What was noticed.

    Returns
    -------
    str
        What was done, in a line.

    Raises
    ------
    DivergenceError
        It is the second time.
    CheckpointError
        The snapshot is damaged.
    """
    path, to_step, arrays = _last_good_snapshot(trainer, folder.snapshots)
    if trainer.rollback:
        found = (
            f"{error.found}, although the training went back to step {trainer.rollback.to_step:,}"
            f" and on with {LEARNING_RATE_FACTOR:g} times the learning rate"
        )
        remedy = f"{error.remedy}; the last good snapshot is {path}"
        raise DivergenceError(error.where, found, error.expected, remedy)
    rollback = Rollback(to_step, trainer.steps_taken, str(error.found), LEARNING_RATE_FACTOR)
    trainer.roll_back(arrays, rollback)
    folder.save(trainer.steps_taken, *trainer.state())
    return (
        f"{error.where}: {error.found}; going back to step {to_step:,} and on with"
        f" {LEARNING_RATE_FACTOR:g} times the learning rate"
    )


def _last_good_snapshot(trainer: Trainer, folder: Path) -> tuple[Path, int, dict[str, np.ndarray]]:
    """The newest one that draws no worse than the untrained network; that one itself, at worst.

    Weights may be finite and long past saving: before a loss overflows, it grows.
    """
    # later ones are what an earlier attempt has left
    taken = [(step, path) for step, path in list_snapshots(folder) if step < trainer.steps_taken]
    untrained = _squared_error(trainer, load_arrays(taken[0][1])[0])
    for step, path in reversed(taken):
        arrays = load_arrays(path)[0]
        if _squared_error(trainer, arrays) <= untrained:
            return path, step, arrays
    raise AssertionError("the untrained network is no worse than itself")


def _squared_error(trainer: Trainer, arrays: dict[str, np.ndarray]) -> float:
    """May be infinite or NaN."""
    trainer.network.load(arrays, "snapshot")
    return trainer.task.squared_error(trainer.network, trainer.device, trainer.objective.dtype)
