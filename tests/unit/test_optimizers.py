import math

import numpy as np
import pytest

from neuralfield.errors import ConfigError
from neuralfield.optimizers import make_optimizer
from neuralfield.schedules import Schedule
from neuralfield.tensor import Tensor


def walk(name, rates, gradients, **settings):
    weight = Tensor(np.array([1.0, -2.0]), differentiable=True)
    optimizer = make_optimizer(name, {"w": weight}, **settings)
    for step, (rate, gradient) in enumerate(zip(rates, gradients, strict=True), start=1):
        optimizer.update([np.array(gradient)], rate, step)
    return weight.data


GRADIENTS = [[0.5, -1.0], [0.2, 3.0], [-0.1, 0.4]]
RATES = [0.1, 0.05, 0.01]


def test_sgd_with_momentum_is_its_recurrence():
    expected, velocity = np.array([1.0, -2.0]), np.zeros(2)
    for rate, gradient in zip(RATES, GRADIENTS, strict=True):
        velocity = 0.9 * velocity + gradient
        expected -= rate * velocity
    np.testing.assert_allclose(walk("sgd", RATES, GRADIENTS, momentum=0.9), expected)


def test_plain_sgd_keeps_no_state():
    weight = Tensor(np.ones(2), differentiable=True)
    assert make_optimizer("sgd", {"w": weight}).state == {}


def test_adam_is_algorithm_1_of_its_paper():
    expected, m, v = np.array([1.0, -2.0]), np.zeros(2), np.zeros(2)
    for t, (rate, gradient) in enumerate(zip(RATES, np.array(GRADIENTS), strict=True), start=1):
        m = 0.9 * m + 0.1 * gradient
        v = 0.99 * v + 0.01 * gradient**2
        expected -= rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.99**t)) + 1e-8)
    np.testing.assert_allclose(walk("adam", RATES, GRADIENTS, beta2=0.99), expected, rtol=1e-12)


def test_the_first_step_of_adam_is_the_learning_rate_whatever_the_gradient():
    moved = np.array([1.0, -2.0]) - walk("adam", [0.1], [[1e-3, -1e3]])
    np.testing.assert_allclose(moved, [0.1, -0.1], rtol=1e-4)


def test_unknown_optimizer():
    with pytest.raises(ConfigError, match=r"training\.optimizer: 'lion'; expected adam or sgd"):
        make_optimizer("lion", {})


def test_cosine_annealing_is_its_formula():
    schedule = Schedule("cosine", 0.1, 0.001, steps=100, epoch_offset=20)
    for i in (0, 1, 50, 99):
        expected = 0.001 + (0.1 - 0.001) * 0.5 * (1 + math.cos(math.pi * i / (100 + 20)))
        assert schedule(i) == pytest.approx(expected, rel=1e-12)


def test_cosine_annealing_does_not_rise_again():
    schedule = Schedule("cosine", 0.1, 0.0, steps=10)
    assert schedule(10) == pytest.approx(0, abs=1e-12)
    assert schedule(15) == pytest.approx(0, abs=1e-12)


def test_warm_up_rises_to_the_schedule():
    schedule = Schedule("constant", 0.1, 0.0, steps=100, warmup_steps=4)
    assert [schedule(i) for i in range(6)] == pytest.approx([0.025, 0.05, 0.075, 0.1, 0.1, 0.1])


def test_unknown_schedule():
    with pytest.raises(ConfigError, match=r"training\.schedule: 'step'; expected cosine"):
        Schedule("step", 0.1, 0.0, 10)
