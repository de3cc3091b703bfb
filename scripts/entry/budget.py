"""Trainings with a budget: the steps that it comes to, and the line that announces them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from neuralfield.system.device import Device
from neuralfield.system.interruption import Interrupted, TimeLimitReached
from neuralfield.tasks.found_steps import FILE_NAME, FoundSteps
from neuralfield.tasks.image.image_task import FittedImage
from neuralfield.tasks.task import Task
from neuralfield.training.budget import Budget
from neuralfield.training.budget_file import steps_in_budget


class Announced(NamedTuple):
    """The steps that a budget came to, and a line that announces them."""

    steps: FoundSteps
    line: str


def within_budget(
    task: Task,
    training: Mapping[str, Any],
    device: Device,
    threads: int,
    folder: Path,
    shared_folder: Path | None = None,
) -> tuple[Task, Announced | None]:
    """Return a task with the steps that its budget came to, and these.

    They are taken from a file in the folder of the training, or in `shared_folder` for the tiles of
    an image, or found and written there. Without a budget the task stays as it is, and so it does
    on a GPU where the budget is a limit for processors.
    """
    budget = Budget.of(training)
    if budget is None or not isinstance(task, FittedImage):
        return task, None
    path = (shared_folder or folder) / FILE_NAME
    if budget.is_limit and device.kind == "gpu":
        path.unlink(missing_ok=True)
        return task, None
    found, is_new = steps_in_budget(
        path,
        task,
        budget,
        device,
        training.get("engine", "auto"),
        threads,
        segments=training.get("segments", 1),
        of_tiles=shared_folder is not None,
    )
    task = found.applied_to(task)
    assert isinstance(task, FittedImage)
    steps = f"{found.steps:,} steps of {task.batch_pixels:,} pixels"
    duration = f"about {_in_words(found.steps * found.step_s)}"
    if is_new:
        return task, Announced(found, f"{duration}: {steps}")
    return task, Announced(found, f"{steps}, which {path} has ({duration} on {found.device})")


@contextmanager
def naming_budgets(training: Mapping[str, Any]) -> Iterator[None]:
    """Name the setting that ends in an image, where the time limit ends a training without one."""
    try:
        yield
    except TimeLimitReached as pause:
        if "time_limit_s" not in training or training.get("segments") != 1:  # or it is a table's
            raise
        instead = f"budget={training['time_limit_s']:g} ends with an image after that time"
        raise Interrupted(f"{pause}; {instead}") from pause


def _in_words(seconds: float) -> str:
    return f"{max(seconds, 1):.0f} s" if seconds < 600 else f"{seconds / 60:,.0f} min"
