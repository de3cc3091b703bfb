"""Gradients of every operation compared with finite differences, in float64."""

import inspect

import numpy as np
import pytest
from finite_differences import check_gradients, sum_all, weighted

from neuralfield.nn import losses, ops
from neuralfield.nn.tensor import Tensor, gradients, record
from neuralfield.system.device import namespace_of

RNG = np.random.default_rng(7)


def normal(*shape):
    return RNG.normal(size=shape)


def beside(tensor, *arrays):
    """Return arrays on the tensor's device."""
    return [namespace_of(tensor.data).asarray(array) for array in arrays]


TABLE_ROWS, TABLE_WEIGHTS = RNG.integers(0, 4, size=(7, 3, 4)), normal(7, 3, 4)

CASES = {
    "add": (lambda a, b: weighted(ops.add(a, b)), normal(3, 4), normal(4)),
    "multiply": (lambda a, b: weighted(ops.multiply(a, b)), normal(2, 3, 4), normal(3, 1)),
    "matmul": (lambda a, b: weighted(ops.matmul(a, b)), normal(5, 3), normal(3, 2)),
    "affine": (
        lambda x, w, b: weighted(ops.affine(x, w, b)),
        normal(5, 3),
        normal(3, 2),
        normal(2),
    ),
    "sine": (lambda x: weighted(ops.sine(x)), normal(4, 3)),
    "variable_sine": (lambda x: weighted(ops.variable_sine(x, 3.0)), normal(4, 3)),
    "gaussian": (lambda x: weighted(ops.gaussian(x)), normal(4, 3)),
    "gabor": (lambda x: weighted(ops.gabor(x, 2.0, 0.7, is_complex=True)), normal(4, 6)),
    "real gabor": (lambda x: weighted(ops.gabor(x, 2.0, 0.7, is_complex=False)), normal(4, 3)),
    "product_of_parts": (lambda x: weighted(ops.product_of_parts(x, 3)), normal(4, 6)),
    "weighted_rows": (
        lambda table: weighted(ops.weighted_rows(table, *beside(table, TABLE_ROWS, TABLE_WEIGHTS))),
        normal(5, 2),
    ),
    "tanh": (lambda x: weighted(ops.tanh(x)), normal(4, 3)),
    "relu": (lambda x: weighted(ops.relu(x)), normal(4, 3)),
    "sigmoid": (lambda x: weighted(ops.sigmoid(x, 4.0)), normal(4, 3)),
    "mean_axis": (lambda x: weighted(ops.mean_axis(x, 1)), normal(4, 3, 2)),
    "group_means": (lambda x: weighted(ops.group_means(x, (3, 2))), normal(10, 3)),
    "reshape": (lambda x: weighted(ops.reshape(x, (6, 2))), normal(4, 3)),
    "transpose": (lambda x: weighted(ops.transpose(x)), normal(4, 3)),
    "flatten": (lambda x: weighted(ops.flatten(x)), normal(2, 3, 2)),
    "concatenate": (lambda a, b: weighted(ops.concatenate([a, b], 1)), normal(4, 3), normal(4, 2)),
}


@pytest.mark.parametrize("name", CASES)
def test_operation(name):
    check_gradients(*CASES[name])


def test_gabor_is_its_formula():
    a, b = normal(4, 3), normal(4, 3)
    frequency = np.exp(2j * (a + 1j * b) - 0.7**2 * (a**2 + b**2))
    found = ops.gabor(Tensor(np.concatenate([a, b], 1)), 2.0, 0.7, is_complex=True).data
    np.testing.assert_allclose(found[:, :3] + 1j * found[:, 3:], frequency, rtol=1e-12)


def test_a_product_with_a_zero_in_it_has_its_gradients():
    x = Tensor(np.array([[0.0, 2.0, 3.0]]), differentiable=True)
    found_gradients = gradients(sum_all(ops.product_of_parts(x, 3)), [x])[0]
    np.testing.assert_array_equal(found_gradients, [[6.0, 0.0, 0.0]])


@pytest.mark.parametrize("points", [1, 300])
def test_a_gpu_adds_up_rows_as_the_cpu_does(points):
    rows, values = RNG.integers(0, 9, size=points), normal(points, 2)
    expected = np.zeros((12, 2))
    np.add.at(expected, rows, values)
    for sums in (
        ops._sums_by_row(rows, values, 12),
        ops._sums_by_sorting(np, rows, values, 12),
    ):
        np.testing.assert_allclose(sums, expected, atol=1e-12)


def test_every_operation_is_checked():
    public = {
        name
        for name, function in inspect.getmembers(ops, inspect.isfunction)
        if function.__module__ == ops.__name__ and not name.startswith("_")
    }
    assert public - {"as_tensor"} <= set(CASES)


@pytest.mark.parametrize("name", ["mse", "binary_cross_entropy", "huber", "of means"])
def test_loss(name):
    of_means = name == "of means"
    loss = losses.squared_error_of_means if of_means else losses.make_loss(name, huber_delta=0.2)
    target, shape = RNG.uniform(size=(6, 3)), (6, 2, 3) if of_means else (6, 3)
    check_gradients(lambda x: loss(x, target, target.size), RNG.uniform(0.05, 0.95, size=shape))


def test_a_value_used_twice_gets_both_gradients():
    check_gradients(lambda x: weighted(ops.multiply(ops.sine(x), ops.add(x, x))), normal(3, 2))


def test_gradients_of_something_that_is_not_a_number_are_refused():
    x = Tensor(normal(3), differentiable=True)
    with pytest.raises(ValueError, match=r"shape \(3,\); expected a single number"):
        gradients(ops.tanh(x), [x])


def test_nothing_is_recorded_where_nothing_is_differentiable():
    result = ops.tanh(Tensor(normal(3)))
    assert result.backward is None
    assert result.parents == ()
    assert record(normal(2), (result,), lambda g: (g,)).backward is None
