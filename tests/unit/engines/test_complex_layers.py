"""Networks of complex numbers as real ones, and the division of their work on a GPU."""

import numpy as np
import pytest

from neuralfield.engines.complex_layers import complex_layer, real_parameters
from neuralfield.engines.cuda.portable import complex_pass
from neuralfield.engines.kernel_plan import network_plan
from neuralfield.fields import ImageShape, build_field, field_settings

WIRE = {"type": "wire", "width": 5, "hidden_layers": 2}


@pytest.mark.parametrize("real_part_only", [False, True])
def test_the_real_matrix_does_what_the_complex_one_does(real_part_only):
    generator = np.random.default_rng(0)
    a, b = generator.normal(size=(2, 4, 3))
    bias = generator.normal(size=3 if real_part_only else 6)
    parameters = {"layers.1.real": a, "layers.1.imaginary": b, "layers.1.bias": bias}
    made = real_parameters(complex_layer(1, 4, 3, real_part_only=real_part_only), parameters)
    x, y = generator.normal(size=(2, 7, 4))
    pairs = np.stack([x, y], axis=2).reshape(7, 8)
    found = pairs @ made["layers.1.weight"] + made["layers.1.bias"]
    expected = (x + 1j * y) @ (a + 1j * b) + (bias if real_part_only else bias[:3] + 1j * bias[3:])
    if real_part_only:
        np.testing.assert_allclose(found, expected.real)
    else:
        np.testing.assert_allclose(found[:, ::2] + 1j * found[:, 1::2], expected)


def test_the_plan_is_that_of_the_real_network():
    network = build_field(field_settings(WIRE), ImageShape(4, 4, 3))
    plan = network_plan(network)
    sizes = [(layer.fan_in, layer.fan_out) for layer in plan.layers]
    assert sizes == [(2, 10), (10, 10), (10, 10), (10, 3)]
    made = real_parameters(plan.complex_tensors, network.arrays)
    assert tuple(made) == plan.parameter_names
    for index, size in enumerate(sizes):
        assert made[f"layers.{index}.weight"].shape == size
        assert made[f"layers.{index}.bias"].shape == (1, size[1])
    numbers = {n: k for t in plan.complex_tensors for n, k in t.parameter_sizes.items()}
    assert numbers == {name: array.size for name, array in network.arrays.items()}
    assert list(numbers) == list(network.parameters)


@pytest.mark.parametrize("size", [1, 255, 256, 257])
def test_blocks_have_each_number_once(size):
    work = np.zeros((), complex_pass._WORK)
    work["size"] = size
    works = complex_pass._shared_out(work, 256)
    numbers = [n for first in works["first"] for n in range(first, min(first + 256, size))]
    assert numbers == list(range(size))
