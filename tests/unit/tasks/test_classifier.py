"""Networks that classify images."""

import numpy as np
import pytest
from finite_differences import numerical_gradient

from neuralfield.images.image import ImageShape
from neuralfield.nn.dropout import TrainingCall
from neuralfield.nn.losses import softmax_cross_entropy
from neuralfield.nn.tensor import Tensor, gradients
from neuralfield.system.errors import ConfigError
from neuralfield.tasks.classifier.convolutional_network import ConvolutionalClassifier

LARGE, SMALL = ImageShape(28, 28, 1), ImageShape(8, 8, 1)
FOR_SMALL = ConvolutionalClassifier(channels=(4, 6), kernel=3, padding=1, hidden=(10,), dropout=0.3)


def build(settings, shape, seed=0, classes=10):
    return settings.build(shape, classes, np.random.default_rng(seed))


def images(count, shape, seed=1):
    return np.random.default_rng(seed).normal(size=(count, shape.height, shape.width, 1))


def test_the_default_is_the_network_with_320_values_before_its_linear_layers():
    network = build(ConvolutionalClassifier(), LARGE)
    shapes = {name: tensor.shape for name, tensor in network.parameters.items()}
    assert shapes == {
        "layers.0.weight": (5, 5, 1, 10),
        "layers.0.bias": (10,),
        "layers.1.weight": (5, 5, 10, 20),
        "layers.1.bias": (20,),
        "layers.2.weight": (320, 64),
        "layers.2.bias": (64,),
        "layers.3.weight": (64, 10),
        "layers.3.bias": (10,),
    }
    assert network.hidden_matrices == {"layers.2.weight"}
    assert network(images(3, LARGE)).shape == (3, 10)


def test_the_gradient_of_the_whole_network():
    settings = ConvolutionalClassifier((2, 3), kernel=3, padding=1, hidden=(4,), dropout=0.5)
    network = build(settings, SMALL, classes=3)
    x, labels = images(3, SMALL), np.array([2, 0, 1])
    call = TrainingCall(0, 5, np.array([4, 8, 9]))

    def loss(weight):
        network.parameters["layers.0.weight"].data[...] = weight.data
        return softmax_cross_entropy(network(x, call), labels, 3)

    leaf = network.parameters["layers.0.weight"]
    weight = leaf.data.copy()
    found = gradients(loss(Tensor(weight)), [leaf])[0]
    np.testing.assert_allclose(found, numerical_gradient(loss, [weight], 0), rtol=1e-5, atol=1e-8)


def test_nothing_is_dropped_outside_training():
    network, x = build(FOR_SMALL, SMALL), images(20, SMALL)
    call = TrainingCall(0, 0, np.arange(20))
    np.testing.assert_array_equal(network(x).data, network(x).data)
    np.testing.assert_array_equal(network(x, call).data, network(x, call).data)
    assert not np.array_equal(network(x).data, network(x, call).data)
    full = build(ConvolutionalClassifier(kernel=3, padding=1), SMALL)
    np.testing.assert_array_equal(full(x).data, full(x, call).data)


def test_two_dropouts_of_a_network_drop_other_values():
    settings = ConvolutionalClassifier((2,), kernel=1, hidden=(16, 16), dropout=0.5)
    network = build(settings, SMALL)
    for name, tensor in network.parameters.items():
        tensor.data[...] = 0
        if name == "layers.1.bias":
            tensor.data[...] = 1
    # the second linear layer passes on the output of the first dropout; equal masks would keep half
    network.parameters["layers.2.weight"].data[...] = np.eye(16)
    network.parameters["layers.3.weight"].data[...] = 1 / 16
    kept = network(images(500, SMALL), TrainingCall(0, 0, np.arange(500))).data[:, 0] / 4
    assert kept.mean() == pytest.approx(0.25, abs=0.02)


def test_a_kernel_too_large_for_what_is_left_of_an_image_is_named():
    with pytest.raises(ConfigError, match=r"convolution 2: images of 2 x 2 .* at least the 5 x 5"):
        build(ConvolutionalClassifier(), SMALL)
