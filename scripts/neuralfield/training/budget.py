"""The steps and the batches of a training that is given a time, found by timing some steps."""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import log2
from typing import Any, Self

from threadpoolctl import threadpool_limits

from neuralfield.system.device import Device, keep_freed_memory
from neuralfield.tasks.image.image_task import FittedImage
from neuralfield.tasks.training_settings import BUDGETS
from neuralfield.training.trainer import Trainer

ENOUGH_STEPS = 2000
"""Batches are made smaller until as many steps fit; see ``benchmarks/budgets.py``."""

LEAST_STEPS = 32

_MOST_STEPS = 10**9

_FIRST_FACTOR = 4
"""The batch that is timed first on a processor, in smallest ones: a large one may take minutes."""

_FILLED_SHARE = 0.92
"""Share of the time that steps are planned for: the rest is for snapshots, and for a machine that
is slower than it was while steps were timed."""

_SAMPLE_SHARE = 0.01
_SHORTEST_SAMPLE_S, _LONGEST_SAMPLE_S = 0.1, 1.0
"""Time of a sample of steps, at the least: this share of the budget, between these limits."""

_UNTIMED_STEPS = 2
"""Kernels are compiled in the first step, and recorded in the second."""


@dataclass(frozen=True)
class Budget:
    """The seconds that a training takes; with `is_limit`, those that it takes at the most."""

    seconds: float
    is_limit: bool = False

    @classmethod
    def of(cls, training: Mapping[str, Any]) -> Self | None:
        """Return the budget in the section `training` of a config, if there is one."""
        name = next((name for name in BUDGETS if name in training), None)
        return None if name is None else cls(float(training[name]), is_limit=name != BUDGETS[0])


@dataclass(frozen=True)
class BatchSizes:
    """Sizes of batches in pixels: that of the settings, the smallest, and the one timed first."""

    configured: int
    smallest: int
    first: int

    @classmethod
    def of(cls, task: FittedImage[Any], device_kind: str) -> Self:
        configured = task.batch_pixels
        smallest = min(configured, task.smallest_batch_pixels)
        first = configured if device_kind == "gpu" else _FIRST_FACTOR * smallest
        return cls(configured, smallest, min(configured, first))


def find_steps(
    budget: Budget,
    steps: int,
    batches: BatchSizes,
    step_s: Callable[[int], float],
    least_steps: int = LEAST_STEPS,
) -> tuple[int, int, float]:
    """Find the steps and the batch of a training, and the seconds of a step, which `step_s`
    measures by the pixels of its batch.

    The largest batch is taken with which `ENOUGH_STEPS` fit: that of the settings, or else a power
    of two. Where not even the smallest one has enough, its steps are few, but at least
    `least_steps`. With a budget that is a limit, the batch of the settings is kept if their `steps`
    fit.
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
        elif wanted >= batch:  # a larger one takes less than in proportion: one more is tried
            wanted = max(wanted, 2 * batch)
        batch = min(max(wanted, batches.smallest), configured)
    fitting = {batch: int(time_s / step) for batch, step in times_s.items()}
    enough = dict.fromkeys(fitting, ENOUGH_STEPS) | {configured: enough_there}
    batch = max((b for b in fitting if fitting[b] >= enough[b]), default=min(fitting))
    found = max(least_steps, min(fitting[batch], _MOST_STEPS))
    if budget.is_limit and batch == configured:
        found = min(found, steps)
    return found, batch, times_s[batch]


def time_of_step_s(
    task: FittedImage[Any],
    budget: Budget,
    device: Device,
    engine: str,
    threads: int,
    batch_pixels: int,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Measure a step of a training, once its kernels are compiled; no other result is kept."""
    sample_s = min(max(_SAMPLE_SHARE * budget.seconds, _SHORTEST_SAMPLE_S), _LONGEST_SAMPLE_S)
    timed = replace(task, training=replace(task.training, batch_pixels=batch_pixels))
    with ExitStack() as stack:
        if device.kind == "cpu":  # as in `fit`
            stack.enter_context(threadpool_limits(limits=1))
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
