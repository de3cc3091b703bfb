"""Pooling compared with its formula, finite differences and PyTorch, in float64."""

import numpy as np
import pytest
from finite_differences import check_gradients, sum_all, weighted

from neuralfield.nn.pooling import max_pool2d
from neuralfield.nn.tensor import Tensor, gradients
from neuralfield.system.errors import ConfigError

RNG = np.random.default_rng(13)

WINDOWS = (1, 2, 3, 17)


def distinct(*shape):
    """Return numbers so far apart that finite differences do not change any maximum."""
    return RNG.permutation(np.arange(np.prod(shape), dtype=float)).reshape(shape) / 10


@pytest.mark.parametrize("window", WINDOWS)
def test_gradients_of_max_pooling(window):
    side = max(window, 5)
    check_gradients(lambda x: weighted(max_pool2d(x, window)), distinct(1, side, side + 2, 2))


def test_values_and_gradients_at_borders_of_equal_numbers_and_of_nan():
    x = np.arange(35.0).reshape(1, 5, 7, 1)  # the last row and column fill no window
    x[0, :2, :2, 0] = [[1, 3], [3, 3]]
    leaf = Tensor(x, differentiable=True)
    found = max_pool2d(leaf, 2)
    np.testing.assert_array_equal(found.data[0, ..., 0], [[3, 10, 12], [22, 24, 26]])
    expected = np.isin(x, found.data[found.data > 3])
    expected[0, 0, 1, 0] = True  # of several that are the largest, the first
    np.testing.assert_array_equal(gradients(sum_all(found), [leaf])[0], expected)
    x[0, 1, 0, 0] = np.nan
    assert np.isnan(max_pool2d(Tensor(x), 2).data[0, 0, 0, 0])


@pytest.mark.parametrize("shape", [(1, 4, 6, 1), (4, 6)])
def test_windows_that_do_not_fit_are_named(shape):
    with pytest.raises(ConfigError, match="expected"):
        max_pool2d(Tensor(np.ones(shape)), 5)
