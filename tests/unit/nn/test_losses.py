import numpy as np
import pytest
from finite_differences import check_gradients

from neuralfield.nn.losses import make_loss, softmax_cross_entropy
from neuralfield.nn.tensor import Tensor, gradients

TARGET = np.array([[0.0], [1.0], [0.25]], dtype=np.float32)


def value_and_gradient(name, values, **settings):
    leaf = Tensor(np.array(values, dtype=np.float32).reshape(-1, 1), differentiable=True)
    loss = make_loss(name, **settings)(leaf, TARGET, TARGET.size)
    return float(loss.data), gradients(loss, [leaf])[0].ravel()


def test_binary_cross_entropy_is_its_formula():
    values = np.array([0.1, 0.8, 0.5])
    value, _ = value_and_gradient("binary_cross_entropy", values)
    target = TARGET.ravel()
    expected = -(target * np.log(values) + (1 - target) * np.log(1 - values)).mean()
    assert value == pytest.approx(expected, rel=1e-6)


def test_binary_cross_entropy_is_finite_where_the_network_is_certain_and_wrong():
    value, gradient = value_and_gradient("binary_cross_entropy", [1.0, 0.0, 0.0])
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()
    assert gradient[0] > 0 > gradient[1], "pushed back towards the target"


def test_huber_is_square_near_the_target_and_linear_far_from_it():
    near, _ = value_and_gradient("huber", [0.05, 1.0, 0.25], huber_delta=0.1)
    far, gradient = value_and_gradient("huber", [0.9, 1.0, 0.25], huber_delta=0.1)
    assert near == pytest.approx(0.5 * 0.05**2 / 3, rel=1e-5)
    assert far == pytest.approx(0.1 * (0.9 - 0.05) / 3, rel=1e-5)
    assert gradient[0] == pytest.approx(0.1 / 3, rel=1e-5)


def test_blocks_of_a_batch_add_up_to_the_batch():
    random = np.random.default_rng(5)
    target, loss = random.uniform(size=(4, 3)), make_loss("mse")
    for function, expected in ((loss, target), (softmax_cross_entropy, LABELS)):
        values = random.uniform(size=(4, 3))
        whole, *parts = (
            function(Tensor(values[s]), expected[s], target.size).data
            for s in (slice(4), slice(3), slice(3, 4))
        )
        assert sum(parts) == pytest.approx(whole, rel=1e-12)


LABELS = np.array([2, 0, 1, 2])


def test_softmax_cross_entropy_has_its_gradient():
    logits = np.random.default_rng(3).normal(size=(4, 3))
    check_gradients(lambda x: softmax_cross_entropy(x, LABELS, 4), logits)


@pytest.mark.parametrize("size", [1, 1e3, 1e30])
def test_softmax_cross_entropy_is_its_formula_for_logits_of_any_size(size):
    logits = (size * np.random.default_rng(4).normal(size=(4, 3))).astype(np.float32)
    leaf = Tensor(logits, differentiable=True)
    loss = softmax_cross_entropy(leaf, LABELS, 4)
    exact = logits.astype(np.float64) - logits.astype(np.float64).max(axis=1, keepdims=True)
    normalised = exact - np.log(np.exp(exact).sum(axis=1, keepdims=True))
    assert float(loss.data) == pytest.approx(-normalised[np.arange(4), LABELS].mean(), rel=1e-6)
    expected = (np.exp(normalised) - np.eye(3)[LABELS]) / 4
    np.testing.assert_allclose(gradients(loss, [leaf])[0], expected, atol=1e-7)
    assert loss.data.dtype == leaf.data.dtype == np.float32
