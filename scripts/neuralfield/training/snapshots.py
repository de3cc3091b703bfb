"""Writing the network of a training in progress, with what says how it was made."""

from functools import partial
from pathlib import Path
from typing import Any

from neuralfield.system.checkpoint import snapshot_path
from neuralfield.training.state import SnapshotReader, StateFolder
from neuralfield.training.trainer import Trainer


def save_snapshot(trainer: Trainer, folder: StateFolder) -> None:
    """Write the network as it is now among the snapshots.

    Raises
    ------
    DivergenceError
        A weight is not a finite number.
    """
    trainer.state()  # refuses a network that is not finite
    save_network(trainer, snapshot_path(folder.snapshots, trainer.steps_taken))


def snapshot_reader(trainer: Trainer) -> SnapshotReader:
    """What reads this training's snapshots, and no other's."""
    return partial(trainer.task.load_snapshot, record=network_record(trainer))


def save_network(trainer: Trainer, path: Path, **changes: int) -> None:
    """Write the network as it is now; `changes` are made to its record."""
    trainer.task.save_network(path, trainer.network, network_record(trainer) | changes)


def network_record(trainer: Trainer) -> dict[str, Any]:
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
