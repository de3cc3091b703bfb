"""The output files of a training: network, history, snapshots and record."""

import math
import platform
import statistics
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from neuralfield import __version__
from neuralfield.system.checkpoint import snapshot_path
from neuralfield.system.files import link_or_copy, write_csv, write_json
from neuralfield.system.provenance import sha256_of
from neuralfield.training.loop import Training
from neuralfield.training.state import StateFolder
from neuralfield.training.trainer import Trainer


def outputs_in(folder: Path) -> dict[str, Path]:
    """Return the paths of the outputs of a training, by the names that rules give them."""
    return {
        "model": folder / "model.safetensors",
        "history": folder / "history.csv",
        "checkpoints": folder / "checkpoints",
        "record": folder / "training.json",
    }


def publish_results(trainer: Trainer, state: StateFolder, training: Training) -> None:
    """Write the network, the history, the snapshots and a record of the training."""
    outputs = outputs_in(training.folder)
    _publish_snapshots(trainer, state, outputs["checkpoints"])
    _save_best_network(trainer, outputs["model"], training)
    last_step_before = trainer.rollback.to_step if trainer.rollback else math.inf
    rows = (
        [int(step), *(f"{number:.9g}" for number in numbers), int(step > last_step_before)]
        for step, *numbers in trainer.history
    )
    write_csv(outputs["history"], [*trainer.history_columns, "rollbacks"], rows)
    written = _record(trainer, training)
    recorded = (outputs["model"], outputs["history"])
    written["sha256"] = {path.name: sha256_of(path) for path in recorded}
    write_json(outputs["record"], written)


def _save_best_network(trainer: Trainer, path: Path, training: Training) -> None:
    model: Any = trainer.present_model()
    if trainer.best:
        step, last_step, loss = trainer.best.step, trainer.steps_taken, trainer.best.loss
        training.note(f"saving the best network, of step {step:,} of {last_step:,}: loss {loss:g}")
        record = model.metadata | {"step": step, "best_of_steps": last_step}
        model = replace(model, arrays=trainer.best.arrays, metadata=record)
    training.finish(trainer, model).write(path)


def _publish_snapshots(trainer: Trainer, folder: StateFolder, target: Path) -> None:
    """Write this training's snapshots to `target` and remove other files.

    Files are replaced one by one, because another job may be reading them. Snapshots are hard
    links, or copies if links fail.
    """
    steps, model = sorted(trainer.snapshot_steps), trainer.present_model()
    target.mkdir(parents=True, exist_ok=True)
    for path in set(target.iterdir()) - {snapshot_path(target, step) for step in steps}:
        path.unlink(missing_ok=True)
    for step in steps:  # not listed, because a network file system may list outdated files
        path = snapshot_path(folder.snapshots, step)
        model.load_snapshot(path, step)  # raises an error if it is missing or damaged
        link_or_copy(path, snapshot_path(target, step))


def _record(trainer: Trainer, training: Training) -> dict[str, Any]:
    rows = np.array([(0, 0.0), *((row[0], row[1]) for row in trainer.history)])
    steps, seconds = np.diff(rows, axis=0).T
    settings = trainer.task.training.described()
    batch = {key: settings[key] for key in ("batch_pixels", "batch_samples") if key in settings}
    found = training.found_settings
    versions = {"neuralfield": __version__, "python": platform.python_version()}
    versions |= {"numpy": np.__version__}
    if training.device.kind == "gpu":
        versions["cupy"] = training.device.xp.__version__
    if trainer.engine.name == "cpu":
        import numba  # which only this engine needs

        versions["numba"] = numba.__version__
    return {
        "device": training.device.name,
        "engine": trainer.engine.name,
        "engine_variant": trainer.engine.variant,
        "precision": trainer.engine.precision,
        "random_seed": trainer.task.training.random_seed,
        "steps": trainer.steps_taken,
        **batch,
        **({"found_for_budget": dict(found)} if found else {}),
        "train_seconds": round(trainer.seconds, 3),
        "step_microseconds": round(statistics.median(1e6 * seconds / steps), 1),
        "threads": training.threads,
        "parameters": trainer.network.parameter_count,
        "memory_bytes": trainer.engine.memory_report(),
        "final_loss": trainer.history[-1][2],
        "best_step": trainer.best.step if trainer.best else None,
        "rollback": asdict(trainer.rollback) if trainer.rollback else None,
        "versions": versions,
        "notes": training.notes,
    }
