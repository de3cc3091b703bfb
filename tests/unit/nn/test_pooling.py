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


def test_values():
    x = Tensor(np.arange(24.0).reshape(1, 4, 6, 1))
    np.testing.assert_array_equal(max_pool2d(x, 2).data[0, ..., 0], [[7, 9, 11], [19, 21, 23]])


def test_what_is_too_little_for_a_window_is_left_out():
    x = Tensor(distinct(1, 5, 7, 1), differentiable=True)
    found_gradients = gradients(sum_all(max_pool2d(x, 2)), [x])[0]
    assert found_gradients.sum() == 2 * 3
    assert not found_gradients[:, 4].any()
    assert not found_gradients[:, :, 6].any()


def test_where_several_are_the_largest_the_first_gets_the_gradient():
    x = Tensor(np.array([[1.0, 3.0], [3.0, 3.0]]).reshape(1, 2, 2, 1), differentiable=True)
    found_gradients = gradients(sum_all(max_pool2d(x, 2)), [x])[0]
    np.testing.assert_array_equal(found_gradients.reshape(2, 2), [[0, 1], [0, 0]])


def test_a_number_that_is_none_is_not_lost():
    x = np.zeros((1, 2, 2, 1))
    x[0, 1, 0, 0] = np.nan
    assert np.isnan(max_pool2d(Tensor(x), 2).data).all()


def test_windows_that_do_not_fit_are_named():
    with pytest.raises(ConfigError, match=r"images of 4 x 6 .* expected at least the 5 x 5"):
        max_pool2d(Tensor(np.ones((1, 4, 6, 1))), 5)
    with pytest.raises(ConfigError, match=r"shape \(4, 6\); expected shape \(batch, height"):
        max_pool2d(Tensor(np.ones((4, 6))), 2)
