import math

import numpy as np
import pytest

from neuralfield.nn.optimizers import make_optimizer, orthogonalised
from neuralfield.nn.schedules import Schedule
from neuralfield.nn.tensor import Tensor
from neuralfield.system.errors import ConfigError


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


def test_adam_is_algorithm_1_of_its_paper():
    expected, m, v = np.array([1.0, -2.0]), np.zeros(2), np.zeros(2)
    for t, (rate, gradient) in enumerate(zip(RATES, np.array(GRADIENTS), strict=True), start=1):
        m = 0.9 * m + 0.1 * gradient
        v = 0.99 * v + 0.01 * gradient**2
        expected -= rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.99**t)) + 1e-8)
    np.testing.assert_allclose(walk("adam", RATES, GRADIENTS, beta2=0.99), expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["adam", "muon"])
def test_a_small_epsilon_moves_weights_of_small_gradients_too(name):
    moved = np.array([1.0, -2.0]) - walk(name, [0.1], [[1e-9, -1e-6]], epsilon=1e-15)
    np.testing.assert_allclose(moved, [0.1, -0.1], rtol=1e-4)


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5)])
def test_orthogonalised_matrices_have_singular_values_of_about_one(shape):
    matrix = np.random.default_rng(1).normal(size=shape)
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    found = orthogonalised(matrix)
    assert found.shape == shape
    assert np.abs(np.linalg.svd(found, compute_uv=False) - 1).max() < 0.35
    # the directions are kept: in the basis of singular vectors the result is diagonal
    np.testing.assert_allclose(
        left.T @ found @ right.T, np.diag(np.diag(left.T @ found @ right.T)), atol=1e-12
    )


def test_muon_moves_hidden_matrices_as_far_as_adam_and_leaves_the_rest_to_it():
    random = np.random.default_rng(2)
    start = {"hidden": random.normal(size=(32, 16)), "other": random.normal(size=(16, 3))}
    found_gradients = [random.normal(size=array.shape) for array in start.values()]
    after = {}
    for name in ("muon", "adam"):
        tensors = {key: Tensor(array.copy(), True) for key, array in start.items()}
        optimizer = make_optimizer(name, tensors, hidden_matrices=frozenset(["hidden"]))
        optimizer.update(found_gradients, 0.01, 1)
        after[name] = {key: tensor.data for key, tensor in tensors.items()}
    np.testing.assert_array_equal(after["muon"]["other"], after["adam"]["other"])
    moved = after["muon"]["hidden"] - start["hidden"]
    # elements of a nearly orthogonal matrix have a root mean square of 1 / sqrt(the longer side)
    assert np.sqrt((moved**2).mean()) == pytest.approx(0.2 * 0.01, rel=0.2)


def test_long_gradients_are_shortened_together_and_short_ones_left():
    clipped = walk("sgd", [1.0], [[3.0, 4.0]], gradient_clip_norm=0.5)
    np.testing.assert_allclose(clipped, [1 - 0.3, -2 - 0.4], rtol=1e-12)
    np.testing.assert_array_equal(
        walk("sgd", [1.0], [[3.0, 4.0]], gradient_clip_norm=5.1), walk("sgd", [1.0], [[3.0, 4.0]])
    )


def test_cosine_annealing_is_its_formula():
    schedule = Schedule("cosine", 0.1, 0.001, steps=100, epoch_offset=20)
    for i in (0, 1, 50, 99):
        expected = 0.001 + (0.1 - 0.001) * 0.5 * (1 + math.cos(math.pi * i / (100 + 20)))
        assert schedule(i) == pytest.approx(expected, rel=1e-12)
    schedule = Schedule("cosine", 0.1, 0.0, steps=10)
    assert [schedule(10), schedule(15)] == pytest.approx([0, 0], abs=1e-12)


def test_exponential_falls_by_the_same_share_in_every_step_and_then_stays():
    schedule = Schedule("exponential", 0.1, 0.001, steps=90, epoch_offset=10)
    assert [schedule(i) for i in (0, 50, 100, 120)] == pytest.approx([0.1, 0.01, 0.001, 0.001])
    ratios = [schedule(i + 1) / schedule(i) for i in range(90)]
    assert ratios == pytest.approx([0.01**0.01] * 90)


def test_exponential_needs_a_rate_to_end_at():
    with pytest.raises(ConfigError, match=r"minimum_learning_rate: 0; expected a number above 0"):
        Schedule("exponential", 0.1, 0.0, steps=100)


def test_warm_up_rises_to_the_schedule():
    schedule = Schedule("constant", 0.1, 0.0, steps=100, warmup_steps=4)
    assert [schedule(i) for i in range(6)] == pytest.approx([0.025, 0.05, 0.075, 0.1, 0.1, 0.1])
