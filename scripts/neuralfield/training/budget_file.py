"""The file that stores the number of steps and the batch size found for a budget.

It is written before the training begins, so that an interrupted training resumes with the same
steps on any machine, and a repeated training ends with the same bytes.
"""

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from neuralfield.system.checkpoint import fingerprint
from neuralfield.system.device import Device
from neuralfield.system.files import storage_errors, write_json
from neuralfield.tasks.found_steps import FILE_NAME, FoundSteps
from neuralfield.tasks.image.image_task import ImageTask
from neuralfield.tasks.task import Task
from neuralfield.training.budget import (
    LEAST_STEPS,
    BatchSizes,
    Budget,
    find_steps,
    time_of_step_s,
)
from neuralfield.version import ENGINE_VERSION


def within_budget(
    task: Task,
    training: Mapping[str, Any],
    device: Device,
    threads: int,
    folder: Path,
    shared_folder: Path | None = None,
) -> tuple[Task, FoundSteps | None, str]:
    """Return a task with the steps for its budget, these steps, and a line that announces them.

    The steps are read from a file in `folder`, or in `shared_folder` for the tiles of an image,
    where they are valid for any image; otherwise they are found by timing, and the file is written.
    A file for other settings, images or kinds of device is replaced. The task is returned unchanged
    if it has no budget, or if the budget is a limit for CPUs and the device is a GPU.
    """
    budget = Budget.of(training)
    if budget is None or not isinstance(task, ImageTask):
        return task, None, ""
    path = (shared_folder or folder) / FILE_NAME
    if budget.is_limit and device.kind == "gpu":
        path.unlink(missing_ok=True)
        return task, None, ""
    engine = training.get("engine", "auto")
    described = task.training.described()
    if not budget.is_limit:
        del described["steps"]
    data = task.identity()[: 2 if shared_folder else None]  # for tiles: only field and mode
    digest = fingerprint(ENGINE_VERSION, data, described, asdict(budget), engine, LEAST_STEPS)
    with storage_errors(path, "cannot be written"), _locked(path):
        found, is_new = FoundSteps.read(path), False
        if not found or (found.measured_for, found.device_kind) != (digest, device.kind):
            changes, step_s = _find_changes(task, budget, device, engine, threads)
            machine = device.name, device.kind, threads
            found, is_new = FoundSteps(changes, step_s, *machine, budget.seconds, digest), True
            write_json(path, asdict(found))
    task = replace(task, training=replace(task.training, **found.training))
    steps = f"{found.steps:,} steps of {task.batch_pixels:,} pixels"
    duration = f"about {_in_words(found.steps * found.step_s)}"
    if is_new:
        return task, found, f"{duration}: {steps}"
    return task, found, f"{steps}, read from {path} ({duration} on {found.device})"


def _find_changes(
    task: ImageTask, budget: Budget, device: Device, engine: str, threads: int
) -> tuple[dict[str, int], float]:
    """Return the changed settings that fit a budget, and the duration of a step in seconds."""
    training, sizes = task.training, BatchSizes.of(task, device.kind)
    measure = partial(time_of_step_s, task, budget, device, engine, threads)
    steps, batch, step_s = find_steps(budget, training.steps, sizes, measure)
    if batch == sizes.configured:
        return training.changes_for(steps, training.batch_pixels), step_s
    if points := training.changes_for_smaller_batches():
        fewer = replace(task, training=replace(training, **points))
        changes, step_s = _find_changes(fewer, budget, device, engine, threads)
        return changes | points, step_s
    return training.changes_for(steps, batch), step_s


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Lock the file: of tiles that begin at the same time, the first finds the steps for all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("w") as file:
        with suppress(OSError):  # a file system without locks: each tile would find its own
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _in_words(seconds: float) -> str:
    return f"{max(seconds, 1):.0f} s" if seconds < 600 else f"{seconds / 60:,.0f} min"
