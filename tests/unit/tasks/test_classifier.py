"""Networks that classify images."""

import numpy as np
import pytest
from finite_differences import numerical_gradient

from neuralfield.images.image import ImageShape
from neuralfield.nn.dropout import TrainingCall
from neuralfield.nn.losses import softmax_cross_entropy
from neuralfield.nn.optimizers import make_optimizer
from neuralfield.nn.tensor import Tensor, gradients
from neuralfield.system.device import HOST
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


@pytest.mark.parametrize(
    ("settings", "shape"), [(ConvolutionalClassifier(), LARGE), (FOR_SMALL, SMALL)]
)
def test_the_matrices_are_as_large_as_the_settings_say(settings, shape):
    network = build(settings, shape, classes=7)
    found = [
        (tensor.data.size // tensor.shape[-1], tensor.shape[-1])
        for name, tensor in network.parameters.items()
        if name.endswith("weight")
    ]
    assert found == settings.weight_shapes(shape, 7)


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


def test_the_same_seed_gives_the_same_network():
    one, other = build(FOR_SMALL, SMALL), build(FOR_SMALL, SMALL)
    for name, array in one.arrays.items():
        np.testing.assert_array_equal(array, other.arrays[name])


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


def test_a_network_in_blocks_is_the_network():
    network, x = build(FOR_SMALL, SMALL), images(9, SMALL)
    whole = network(x, TrainingCall(0, 3, np.arange(9))).data
    parts = [
        network(x[s], TrainingCall(0, 3, np.arange(9)[s])).data for s in (slice(4), slice(4, 9))
    ]
    np.testing.assert_allclose(np.concatenate(parts), whole, atol=1e-12)


def test_it_learns_where_a_bright_spot_is():
    labels = np.random.default_rng(2).integers(0, 4, size=200)
    x = 0.3 * images(200, SMALL)
    for image, label in zip(x, labels, strict=True):
        row, column = 4 * (label // 2), 4 * (label % 2)
        image[row : row + 4, column : column + 4] += 0.5
    network = build(FOR_SMALL, SMALL, classes=4).to(HOST, "float32")
    x = x.astype(np.float32)
    optimizer = make_optimizer("adam", network.parameters)
    leaves = list(network.parameters.values())
    for step in range(60):
        logits = network(x, TrainingCall(0, step, np.arange(200)))
        loss = softmax_cross_entropy(logits, labels, 200)
        optimizer.update(gradients(loss, leaves), 0.01, step + 1)
    assert (network(x).data.argmax(axis=1) == labels).mean() > 0.95


def test_saved_arrays_can_be_put_back():
    network, other = build(FOR_SMALL, SMALL), build(FOR_SMALL, SMALL, seed=1)
    other.load(network.arrays, "model")
    x = images(2, SMALL)
    np.testing.assert_array_equal(other(x).data, network(x).data)
    with pytest.raises(ConfigError, match=r"layers\.0\.weight of shape"):
        build(FOR_SMALL, ImageShape(8, 8, 3)).load(network.arrays, "model")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": 0}, r"classifier: kernel: 0; expected a whole number of pixels >= 1"),
        ({"channels": (4, 0)}, r"classifier: channels: \(4, 0\); expected .* a whole number >= 1"),
        ({"padding": -1}, r"classifier: padding: -1; expected a whole number >= 0"),
        ({"dropout": 1.0}, r"dropout: 1\.0; expected a number >= 0 and below 1"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        ConvolutionalClassifier(**settings)


def test_a_kernel_too_large_for_what_is_left_of_an_image_is_named():
    with pytest.raises(ConfigError, match=r"convolution 2: images of 2 x 2 .* at least the 5 x 5"):
        build(ConvolutionalClassifier(), SMALL)
