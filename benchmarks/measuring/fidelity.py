"""Parts `fidelity` and `original`: the quality and the time of fits of images."""

import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from measuring import images
from measuring.context import Context
from measuring.measure import markdown_table, synchronize_all_streams
from measuring.ours import CUDA_MIXED, TAPE, Ours, TrainingSteps, fit_db, systems
from measuring.rows import HASHGRID_16, ORIGINAL, SIREN, reduced_field
from neuralfield.fields import field_settings
from neuralfield.tasks.image.image_task import ImageTask
from neuralfield.tasks.training_settings import ImageTraining

_PHOTO_STEPS, _DRAWING_STEPS, _GRID_STEPS, _QUICK_STEPS = 2000, 3000, 1000, 20
_STEPS_BETWEEN_CHECKS = 100
SWEPT_LEARNING_RATES = (0.03, 0.1, 0.3, 1.0, 3.0)
_SWEEP_SHARE = 40
"""Divisor of the number of epochs in the runs that try a learning rate."""


class _PeerSteps(Protocol):
    def __call__(self, steps: int) -> None: ...
    def arrays(self) -> dict[str, np.ndarray]: ...


def measure_fidelity(context: Context, photo: Path, drawing: Path) -> None:
    """Measure the dB on the training pixels, with Adam at a constant rate from the same weights."""
    quick = context.quick
    photo_values = images.photo(photo, quick=quick)
    for name, field, values, mode, steps, rate in (
        ("photograph", SIREN, photo_values, "rgb", _PHOTO_STEPS, 1e-4),
        ("drawing", SIREN, images.drawing(drawing, quick=quick), "grey", _DRAWING_STEPS, 1e-4),
        ("photograph, hashgrid", HASHGRID_16, photo_values, "rgb", _GRID_STEPS, 1e-2),
    ):
        count = _QUICK_STEPS if quick else steps
        height, width, _ = values.shape
        row = f"{name}, {width}x{height} {mode}, {count:,} steps"
        task = _task(field, values, mode, count, rate, quick=quick)
        for ours in systems(context.device):
            train = partial(_train_with_ours, task, ours, context)
            context.report.attempt("fidelity", row, ours.name, context.deadline, train)
        for peer in context.peers()[:1]:
            train = partial(_train_with_peer, task, peer, context)
            context.report.attempt("fidelity", row, peer.name, context.deadline, train)
    context.report.add_table("fidelity", "fit_db", "dB on the training pixels", digits=4)
    context.report.add_table("fidelity", "seconds", "seconds of these steps")


def measure_original(
    context: Context, drawing: Path, epochs: int, learning_rate: float | None
) -> None:
    """Measure the original network: full-batch gradient descent, cross-entropy, cosine annealing.

    Without a learning rate, each of `SWEPT_LEARNING_RATES` is tried with a cosine schedule over a
    fortieth of the epochs, and the rate with the highest dB is used.
    """
    ours = CUDA_MIXED if context.device.kind == "gpu" else TAPE
    values = images.drawing(drawing, quick=context.quick)
    report = context.report

    def train(row: str, rate: float, count: int) -> None:
        settings = {
            "loss": "binary_cross_entropy",
            "optimizer": "sgd",
            "schedule": "cosine",
            "precision": ours.precision,
        }
        task = _task(ORIGINAL, values, "grey", count, rate, quick=context.quick, **settings)
        measure = partial(_train_with_ours, task, ours, context)
        report.attempt("original", row, ours.name, context.deadline, measure)

    def finished() -> list[dict[str, Any]]:
        return [e for e in report.entries if e["part"] == "original" and "fit_db" in e]

    if learning_rate is None:
        for rate in SWEPT_LEARNING_RATES:
            train(f"trying {rate:g}", rate, max(1, epochs // _SWEEP_SHARE))
        best = max(finished(), key=lambda entry: entry["fit_db"], default=None)
        if best is None:
            return
        learning_rate = float(best["learning_rate"])
    train("whole", learning_rate, epochs)
    lines = [
        [f"{e['learning_rate']:g}", f"{e['steps']:,}", f"{e['seconds']:.1f}", f"{e['fit_db']:.2f}"]
        for e in finished()
    ]
    header = [f"original network, {ours.name}: learning rate", "epochs", "seconds", "dB"]
    report.tables.append(markdown_table(header, lines))


def _task(
    field: dict[str, Any],
    values: np.ndarray,
    mode: str,
    steps: int,
    rate: float,
    *,
    quick: bool,
    schedule: str = "constant",
    **settings: Any,
) -> ImageTask:
    """Return a task with all pixels in every step, fitted at their centres."""
    training = ImageTraining(
        steps=steps,
        batch_pixels=0,
        detail_share=0.0,
        supervision="point",
        learning_rate=rate,
        schedule=schedule,
        **settings,
    )
    network = field_settings(reduced_field(field) if quick else field)
    return ImageTask(values, mode, network, training)


def _train_with_ours(task: ImageTask, ours: Ours, context: Context) -> dict[str, Any]:
    task = replace(task, training=replace(task.training, precision=ours.precision))
    with TrainingSteps(task, context.device, ours.engine) as steps:
        return _train(task, steps, context)


def _train_with_peer(task: ImageTask, peer: Any, context: Context) -> dict[str, Any]:
    from torch_peers.fields import FieldSteps, release_memory

    found = _train(task, FieldSteps(task, context.device, peer), context)
    release_memory()
    return found


def _train(task: ImageTask, steps: _PeerSteps, context: Context) -> dict[str, Any]:
    """Take all steps of a task and measure the fit, unless the part's time limit ends first."""
    taken, wanted = 0, task.training.steps
    start_s = time.perf_counter()
    while taken < wanted and not context.deadline.passed:
        count = min(max(_STEPS_BETWEEN_CHECKS, wanted // 1000), wanted - taken)
        steps(count)
        synchronize_all_streams(context.device)
        taken += count
    seconds = time.perf_counter() - start_s
    if taken < wanted:
        limit_s = context.deadline.limit_s
        return {"left_out": f"{taken:,} of {wanted:,} steps when the part's {limit_s:g} s ended"}
    found_db = fit_db(steps.arrays(), task, context.device)
    rate = task.training.learning_rate
    return {"fit_db": found_db, "seconds": seconds, "steps": taken, "learning_rate": rate}
