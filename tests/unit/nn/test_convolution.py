"""Convolutions compared with their formula and finite differences, in float64."""

import tracemalloc

import numpy as np
import pytest
from finite_differences import check_gradients, weighted

from neuralfield.nn import convolution
from neuralfield.nn.convolution import BLOCK_VALUES, conv2d
from neuralfield.nn.tensor import Tensor, gradients
from neuralfield.system.errors import ConfigError

RNG = np.random.default_rng(11)

# x, weight, settings
CASES = {
    "one place": ((2, 3, 3, 1), (3, 3, 1, 2), {}),
    "no overlap": ((2, 4, 6, 2), (1, 1, 2, 3), {}),
    "tiles": ((2, 6, 10, 2), (3, 3, 2, 2), {}),
    "odd sizes": ((1, 7, 9, 1), (2, 3, 1, 2), {}),
    "padding": ((2, 4, 5, 1), (3, 3, 1, 2), {"padding": 1}),
    "padding, not square": ((1, 6, 9, 2), (2, 3, 2, 4), {"padding": 2}),
}


def arrays_of(name):
    x, weight, settings = CASES[name]
    return [RNG.normal(size=shape) for shape in (x, weight, weight[3:])], settings


def by_the_formula(x, weight, bias, padding=0):
    x = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    height, width, _, outputs = weight.shape
    result = np.empty((len(x), x.shape[1] - height + 1, x.shape[2] - width + 1, outputs))
    for n, i, j, o in np.ndindex(result.shape):
        seen = x[n, i : i + height, j : j + width]
        result[n, i, j, o] = bias[o] + (seen * weight[..., o]).sum()
    return result


@pytest.mark.parametrize("name", CASES)
def test_convolution_is_its_formula(name):
    arrays, settings = arrays_of(name)
    found = conv2d(*map(Tensor, arrays), **settings).data
    np.testing.assert_allclose(found, by_the_formula(*arrays, **settings), atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_gradients(name):
    arrays, settings = arrays_of(name)
    for given in (arrays, arrays[:2]):  # with and without a bias
        check_gradients(lambda *leaves: weighted(conv2d(*leaves, **settings)), *given)


@pytest.mark.parametrize("values", [1, 100, 700])
def test_blocks_of_images_and_of_lines_change_nothing_but_rounding(monkeypatch, values):
    arrays = [RNG.normal(size=shape) for shape in ((5, 7, 10, 2), (3, 3, 2, 4), (4,))]

    def everything():
        leaves = [Tensor(array, differentiable=True) for array in arrays]
        y = conv2d(*leaves)
        return [y.data, *gradients(weighted(y), leaves)]

    expected = everything()
    monkeypatch.setitem(convolution.BLOCK_VALUES, "numpy", values)
    for found, value in zip(everything(), expected, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(256, 32, 32, 4), (1, 512, 512, 4)])
def test_memory_is_bounded_by_a_block_of_windows(shape):
    leaves = [
        Tensor(np.ones(size, dtype=np.float32), differentiable=True)
        for size in (shape, (5, 5, 4, 4), (4,))
    ]
    windows_bytes = 25 * leaves[0].data.nbytes
    # one block, and small objects
    working_bytes = 4 * BLOCK_VALUES["numpy"] + (1 << 18)

    tracemalloc.start()
    y = conv2d(*leaves)
    forward_bytes = tracemalloc.get_traced_memory()[1]
    assert y.backward is not None
    g = np.ones_like(y.data)
    before_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    found_gradients = y.backward(g)
    backward_bytes = tracemalloc.get_traced_memory()[1] - before_bytes
    tracemalloc.stop()

    assert forward_bytes < y.data.nbytes + working_bytes < windows_bytes / 10
    ones_bytes = y.data.nbytes // 4
    batch, height, width, channels = y.shape
    padded_bytes = 4 * batch * (height + 8) * (width + 8) * channels
    assert found_gradients[0] is not None
    expected_bytes = found_gradients[0].nbytes + padded_bytes + ones_bytes + working_bytes
    assert backward_bytes < expected_bytes < windows_bytes / 8


@pytest.mark.parametrize(
    ("x", "weight", "bias"),
    [
        ((2, 5, 5), (3, 3, 1, 2), (2,)),
        ((2, 5, 5, 1), (3, 3, 2), (2,)),
        ((2, 5, 5, 3), (3, 3, 1, 2), (2,)),
        ((2, 5, 4, 1), (3, 5, 1, 2), (2,)),
        ((2, 5, 5, 1), (3, 3, 1, 2), (3,)),
    ],
)
def test_shapes_that_do_not_fit_are_named(x, weight, bias):
    with pytest.raises(ConfigError, match="expected"):
        conv2d(*(Tensor(np.ones(shape)) for shape in (x, weight, bias)))
