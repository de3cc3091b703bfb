"""The number of steps and the batch size for a training with a time budget.

They are found by timing some steps, and stored in a file before the training begins, so that an
interrupted training resumes with the same steps on any machine, and a repeated training ends with
the same bytes.
"""

import fcntl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import log2
from pathlib import Path
from typing import Any, Self

from neuralfield.system.checkpoint import fingerprint
from neuralfield.system.device import Device, keep_freed_memory, limit_blas_to_one_core
from neuralfield.system.errors import NeuralfieldError
from neuralfield.system.files import storage_errors, write_json
from neuralfield.system.input_files import read_json
from neuralfield.system.settings import settings_of
from neuralfield.tasks.image.image_task import ImageTask
from neuralfield.tasks.training_settings import BUDGETS, ImageTraining
from neuralfield.training.loop import Training
from neuralfield.training.trainer import Trainer
from neuralfield.version import ENGINE_VERSION

FILE_NAME = "budget.json"

_FOUND = ("steps", "batch_pixels", "warmup_steps", "footprint_points")

ENOUGH_STEPS = 2000
"""Minimum number of steps for which a batch size is kept; if fewer fit in the budget, batches are
made smaller. See docs/budgets.md."""

LEAST_STEPS = 32

_MOST_STEPS = 10**9

_FIRST_FACTOR = 4
"""Size of the batch that is timed first on a CPU, in multiples of the smallest batch. It is small,
because a step with a large batch may take minutes."""

_FILLED_SHARE = 0.92
"""Share of the budget that is planned for steps. The rest is a margin for snapshots, and in case
the machine becomes slower than it was while steps were timed."""

_SAMPLE_SHARE = 0.01
_SHORTEST_SAMPLE_S, _LONGEST_SAMPLE_S = 0.1, 1.0
"""Minimum duration of timed steps: this share of the budget, clipped to these limits."""

_UNTIMED_STEPS = 2
"""Number of steps before timing: kernels are compiled in the first and recorded in the second."""


@dataclass(frozen=True)
class Budget:
    """The duration of a training in seconds, or its maximum duration if `is_limit` is set."""

    seconds: float
    is_limit: bool = False

    @classmethod
    def of(cls, training: Mapping[str, Any]) -> Self | None:
        """Return the budget in the section `training` of a config; None if there is none."""
        name = next((name for name in BUDGETS if name in training), None)
        return None if name is None else cls(float(training[name]), is_limit=name != BUDGETS[0])


@dataclass(frozen=True)
class FoundSteps:
    """The number of steps and the batch size that were found for a budget."""

    training: dict[str, int]
    """The settings that were found; if they are given instead of the budget, the same network is
    trained."""
    step_s: float  # measured duration of a step
    # the device on which it was measured; see `neuralfield.system.device.Device`
    device: str
    device_kind: str
    threads: int
    budget_s: float
    measured_for: str  # digest of the training for which the settings were found

    @property
    def steps(self) -> int:
        return self.training["steps"]

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Read a file; return None if there is none or it is damaged."""
        with suppress(NeuralfieldError, TypeError, AttributeError):
            found = cls(**read_json(path))
            rules = settings_of(ImageTraining)
            is_whole = {*_FOUND[:2]} <= {*found.training} <= {*_FOUND}
            if is_whole and all(rules[key].allows(n) for key, n in found.training.items()):
                return replace(found, step_s=float(found.step_s))
        return None


@dataclass(frozen=True)
class BatchSizes:
    """Batch sizes in pixels: that of the settings, the smallest, and the first to be timed."""

    configured: int
    smallest: int
    first: int

    @classmethod
    def of(cls, task: ImageTask, device_kind: str) -> Self:
        configured = task.batch_pixels
        smallest = min(configured, task.smallest_batch_pixels)
        first = configured if device_kind == "gpu" else _FIRST_FACTOR * smallest
        return cls(configured, smallest, min(configured, first))


def apply_budget(
    run: Training, settings: Mapping[str, Any], shared_folder: Path | None = None
) -> None:
    """Set the steps of a training for the budget in the section `training` of a config.

    The steps are read from a file in its folder, or in `shared_folder` for the tiles of an image,
    where they are valid for any image; otherwise they are found by timing, and the file is written.
    A file for other settings, images or kinds of device is replaced. Nothing is changed if there is
    no budget, or if the budget is a limit for CPUs and the device is a GPU.
    """
    task, device, budget = run.task, run.device, Budget.of(settings)
    if budget is None or not isinstance(task, ImageTask):
        return
    path = (shared_folder or run.folder) / FILE_NAME
    if budget.is_limit and device.kind == "gpu":
        path.unlink(missing_ok=True)
        return
    described = task.training.described()
    if not budget.is_limit:
        del described["steps"]
    data = task.identity()[: 2 if shared_folder else None]  # for tiles: only field and mode
    digest = fingerprint(ENGINE_VERSION, data, described, asdict(budget), run.engine, LEAST_STEPS)
    with storage_errors(path, "cannot be written"), _locked(path):
        found, is_new = FoundSteps.read(path), False
        if not found or (found.measured_for, found.device_kind) != (digest, device.kind):
            changes, step_s = _find_changes(task, budget, device, run.engine, run.threads)
            machine = device.name, device.kind, run.threads
            found, is_new = FoundSteps(changes, step_s, *machine, budget.seconds, digest), True
            write_json(path, asdict(found))
    run.task = task = replace(task, training=replace(task.training, **found.training))
    run.found_settings = found.training
    steps = f"{found.steps:,} steps of {task.batch_pixels:,} pixels"
    duration = f"about {_in_words(found.steps * found.step_s)}"
    if is_new:
        run.note(f"{duration}: {steps}")
    else:
        run.note(f"{steps}, read from {path} ({duration} on {found.device})")


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


def find_steps(
    budget: Budget,
    steps: int,
    batches: BatchSizes,
    step_s: Callable[[int], float],
) -> tuple[int, int, float]:
    """Return the number of steps, the batch size, and the duration of a step for a budget.

    `step_s` measures the duration of a step in seconds for a batch size in pixels. The result is
    the largest batch with which `ENOUGH_STEPS` steps fit in the budget: that of the settings, or a
    power of two. If too few steps fit even with the smallest batch, the number of steps is smaller,
    but at least `LEAST_STEPS`. If the budget is a limit, the batch of the settings is also kept if
    the `steps` of the settings fit, and there are no more steps with it than these.
    """
    time_s = _FILLED_SHARE * budget.seconds
    configured = batches.configured
    enough_there = min(ENOUGH_STEPS, steps) if budget.is_limit else ENOUGH_STEPS
    times_s: dict[int, float] = {}
    batch = batches.first
    while batch not in times_s:
        times_s[batch] = step_s(batch)
        pixels = batch * time_s / times_s[batch]  # of all steps that fit
        wanted = 1 << int(log2(max(pixels / ENOUGH_STEPS, 1)))
        if pixels >= enough_there * configured:
            wanted = configured
        elif wanted >= batch:  # time grows less than in proportion: try a larger batch
            wanted = max(wanted, 2 * batch)
        batch = min(max(wanted, batches.smallest), configured)
    fitting = {batch: int(time_s / step) for batch, step in times_s.items()}
    enough = dict.fromkeys(fitting, ENOUGH_STEPS) | {configured: enough_there}
    batch = max((b for b in fitting if fitting[b] >= enough[b]), default=min(fitting))
    found = max(LEAST_STEPS, min(fitting[batch], _MOST_STEPS))
    if budget.is_limit and batch == configured:
        found = min(found, steps)
    return found, batch, times_s[batch]


def time_of_step_s(
    task: ImageTask,
    budget: Budget,
    device: Device,
    engine: str,
    threads: int,
    batch_pixels: int,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Return the measured duration of a step in seconds, after its kernels are compiled."""
    sample_s = min(max(_SAMPLE_SHARE * budget.seconds, _SHORTEST_SAMPLE_S), _LONGEST_SAMPLE_S)
    timed = replace(task, training=replace(task.training, batch_pixels=batch_pixels))
    with ExitStack() as stack:
        if device.kind == "cpu":  # as in `fit`
            stack.enter_context(limit_blas_to_one_core())
            keep_freed_memory()
        trainer = Trainer(timed, device, engine, threads, lambda line: None)
        stack.callback(trainer.close)
        taken = 0

        def take_s(count: int) -> float:
            nonlocal taken
            started_s, end = clock(), taken + count
            while taken < end:
                part = min(trainer.engine.most_steps, end - taken)
                trainer.engine.run(taken, part)
                taken += part
            float(trainer.engine.totals[0])  # waits for the steps
            return clock() - started_s

        for _ in range(_UNTIMED_STEPS):
            take_s(1)
        count = 1
        while (elapsed_s := take_s(count)) < sample_s:
            count *= 2
        return elapsed_s / count


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
