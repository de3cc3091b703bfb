"""Comparison of the tape's gradients with finite differences."""

import numpy as np

from neuralfield.nn import ops
from neuralfield.nn.tensor import Tensor, gradients, record
from neuralfield.system.device import namespace_of


def numerical_gradient(function, arrays, index, step=1e-6):
    """Compute central differences of a scalar function with respect to one of its arrays."""
    result = np.zeros_like(arrays[index])
    for position in np.ndindex(result.shape):
        values = []
        for sign in (1, -1):
            moved = [array.copy() for array in arrays]
            moved[index][position] += sign * step
            values.append(float(function(*map(Tensor, moved)).data))
        result[position] = (values[0] - values[1]) / (2 * step)
    return result


def check_gradients(function, *arrays):
    leaves = [Tensor(array, differentiable=True) for array in arrays]
    for index, gradient in enumerate(gradients(function(*leaves), leaves)):
        expected = numerical_gradient(function, list(arrays), index)
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-7)


def weighted(x):
    """Return a sum with a different weight for every element, so that errors do not cancel out."""
    weights = np.linspace(0.3, 1.7, x.data.size).reshape(x.shape)
    return sum_all(ops.multiply(x, weights))


def sum_all(x):
    """Return the sum of all elements as a scalar."""
    xp = namespace_of(x.data)
    return record(x.data.sum(), (x,), lambda g: (xp.broadcast_to(g, x.shape),))
