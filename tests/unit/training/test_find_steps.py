"""Steps and batches are found for a time budget from the time of a step, with simulated clocks."""

from collections.abc import Callable

import numpy as np
import pytest

from neuralfield.fields import field_settings
from neuralfield.system.device import select_device
from neuralfield.tasks.image.image_task import ImageTask
from neuralfield.tasks.training_settings import ImageTraining
from neuralfield.training.budget import (
    ENOUGH_STEPS,
    LEAST_STEPS,
    BatchSizes,
    Budget,
    find_steps,
    time_of_step_s,
)

SIZES = BatchSizes(configured=16384, smallest=256, first=1024)


def taking(seconds_per_pixel: float, overhead_s: float = 0.0) -> Callable[[int], float]:
    """Return a function that gives the seconds of a step for a number of pixels."""
    return lambda batch: overhead_s + seconds_per_pixel * batch


def task_with(side: int = 200, **training):
    values = np.random.default_rng(0).random((side, side, 1), np.float32)
    settings = ImageTraining.from_mapping(training)
    return ImageTask(values, "grey", field_settings({"type": "siren"}), settings)


@pytest.mark.parametrize(
    ("seconds_per_pixel", "batch"),
    [(1e-7, 16384), (1.6e-6, 16384), (3e-6, 8192), (1e-5, 2048), (1e-4, 256)],
)
def test_the_largest_batch_with_enough_steps_fills_the_time(seconds_per_pixel, batch):
    steps, found, step_s = find_steps(Budget(60), 2000, SIZES, taking(seconds_per_pixel))
    assert found == batch and steps >= ENOUGH_STEPS
    assert 0.9 * 60 < steps * step_s < 60


def test_too_little_time_gives_few_steps_of_the_smallest_batch():
    steps, batch, step_s = find_steps(Budget(5), 2000, SIZES, taking(1e-4))
    assert (steps, batch) == (int(0.92 * 5 / step_s), 256)
    assert find_steps(Budget(0.01), 2000, SIZES, taking(1e-4))[:2] == (LEAST_STEPS, 256)


def test_overheads_and_noise_come_to_an_end():
    for seconds, overhead_s in ((4e-6, 0.02), (2e-6, 0.015)):
        steps, _, step_s = find_steps(Budget(60), 2000, SIZES, taking(seconds, overhead_s))
        assert steps >= ENOUGH_STEPS and 0.9 * 60 < steps * step_s < 60
    noise = np.random.default_rng(0)
    for _ in range(200):
        find_steps(Budget(60), 2000, SIZES, lambda batch: 1e-5 * batch * noise.uniform(0.3, 3))


def test_a_limit_is_not_filled():
    limit = Budget(150, is_limit=True)
    assert find_steps(limit, 2000, SIZES, taking(1e-7))[:2] == (2000, 16384)
    steps, batch, step_s = find_steps(limit, 4000, SIZES, taking(3e-6))
    assert batch == 16384 and ENOUGH_STEPS < steps < 4000 and steps * step_s < 150
    # a smaller batch is not chosen in order to take more steps than the network has
    assert find_steps(limit, 500, SIZES, taking(1.5e-5))[:2] == (500, 16384)


def test_a_large_batch_is_not_timed_where_it_would_take_long():
    timed = []

    def step_s(batch: int) -> float:
        timed.append(batch)
        return 1e-3 * batch

    find_steps(Budget(1), 2000, SIZES, step_s)
    assert max(timed) == SIZES.first


def test_a_step_is_timed_after_the_first_ones_and_for_long_enough():
    """Two steps are not counted; then 1, 2 and 4 steps are timed, until they take long enough."""
    started_s, times_s = 0.0, []
    for seconds in (30, 7, 0.03, 0.06, 0.12):
        times_s += [started_s, started_s := started_s + seconds]
    ticks = iter(times_s)
    task, device = task_with(side=8, steps=9), select_device("cpu")
    step_s = time_of_step_s(task, Budget(1), device, "tape", 1, 16, clock=lambda: next(ticks))
    assert step_s == pytest.approx(0.03) and not list(ticks)


def test_a_budget_wins_over_a_limit():
    assert Budget.of({"steps": 5}) is None
    assert Budget.of({"cpu_budget": 9}) == Budget(9, is_limit=True)
    assert Budget.of({"cpu_budget": 9, "budget": 3}) == Budget(3)


def test_a_warm_up_is_cut_to_half_of_the_steps():
    long = ImageTraining(steps=2000, warmup_steps=500)
    assert long.changes_for(4000, 64) == {"steps": 4000, "batch_pixels": 64}
    assert long.changes_for(100, 64) == {"steps": 100, "batch_pixels": 64, "warmup_steps": 50}
