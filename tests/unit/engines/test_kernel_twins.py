"""The kernels' plain twins against the tape: what a GPU is held to must itself be right."""

import numpy as np
import pytest

from neuralfield.engines import layers
from neuralfield.engines.complex_layers import complex_gradients, real_parameters
from neuralfield.engines.plan import TILE_ROWS, BatchPlan, network_plan
from neuralfield.fields import PictureShape, field_settings
from neuralfield.nn.losses import make_loss, mean_squared_error, squared_error_of_means
from neuralfield.nn.ops import mean_axis, reshape
from neuralfield.nn.tensor import gradients

PIXELS = 37
HUBER_DELTA = 0.1
FIELDS = [
    {"type": "siren", "width": 9, "hidden_layers": 2},
    {"type": "siren", "width": 5, "hidden_layers": 0, "output": "sigmoid", "steepness": 2.0},
    {"type": "mlp", "widths": (4, 17, 1), "activation": "tanh", "coordinates": "corners"},
    {"type": "mlp", "widths": (6,), "activation": "sigmoid", "bias": False},
    {"type": "mlp", "widths": (), "activation": "relu"},
    {"type": "fourier", "frequencies": 5, "width": 7, "activation": "relu", "scale": 2.0},
    {"type": "hashgrid", "levels": 4, "base_resolution": 3, "log2_table_size": 5, "width": 7},
    {"type": "finer", "width": 9, "hidden_layers": 2, "first_omega_0": 5.0, "omega_0": 30.0},
    {"type": "wire", "width": 5, "hidden_layers": 2, "omega_0": 5.0, "scale": 3.0},
    {"type": "wire", "width": 3, "hidden_layers": 0, "output": "sigmoid"},
    {"type": "gauss", "width": 9, "hidden_layers": 2, "scale": 3.0},
    {"type": "cafe", "frequencies": 5, "chebyshev_degree": 4, "width": 7, "scale": 2.0},
    {"type": "cafe", "chebyshev_degree": 0, "factors": 1, "hidden_layers": 2, "width": 6},
    {"type": "cafe", "frequencies": 3, "factors": 8, "hidden_layers": 0, "width": 5},
]


def as_inputs(network, points: np.ndarray) -> np.ndarray:
    """What kernels are given for points: u and v for corners, without the column of ones."""
    if network_plan(network).encoding == "corners":
        return network.encoding(points)[:, 1:]
    return points


def tape_results(network, batch: BatchPlan, points, targets, weights):
    """Loss, squared error and gradients, as the reference engine has them."""
    count = batch.pixels * batch.channels
    values = network(points)
    if batch.footprint:
        groups = reshape(values, (batch.pixels, 2, -1, batch.channels))
        estimates = mean_axis(groups, axis=2)
        loss_of = make_loss(batch.loss, HUBER_DELTA)
        if loss_of is mean_squared_error:
            loss = squared_error_of_means(estimates, targets, count)
        else:
            loss = loss_of(mean_axis(estimates, axis=1), targets, count)
        errors = estimates.data - targets[:, None, :]
        squared = errors[:, 0] * errors[:, 1]
    else:
        loss = make_loss(batch.loss, HUBER_DELTA)(values, targets, count)
        squared = (values.data - targets) ** 2
    if weights is not None:
        squared = squared * weights[:, None]
    found = gradients(loss, list(network.parameters.values()))
    return float(loss.data), float(squared.sum() / count), found


@pytest.mark.parametrize("points", [1, 2, 6])
@pytest.mark.parametrize("loss", ["mse", "binary_cross_entropy", "huber"])
@pytest.mark.parametrize("field", FIELDS, ids=lambda field: str(field))
def test_the_twin_of_the_layers_has_the_gradients_of_the_tape(field, loss, points) -> None:
    channels = 3 if loss == "huber" else 1
    generator = np.random.default_rng(1)
    network = field_settings(field).build(PictureShape(8, 6, channels), generator)
    batch = BatchPlan(PIXELS, points, points > 1, loss, HUBER_DELTA, channels, points == 2)
    targets = generator.uniform(size=(PIXELS, channels))
    weights = generator.uniform(0.5, 2, size=PIXELS) if batch.weighted else None
    coordinates = generator.uniform(-1, 1, size=(PIXELS * points, 2))

    inputs = np.zeros((batch.rows, 2))
    inputs[layers.valid_rows(batch)] = as_inputs(network, coordinates)
    plan = network_plan(network)
    parameters = {name: tensor.data for name, tensor in network.parameters.items()}
    if plan.complex_tensors:
        parameters = real_parameters(plan.complex_tensors, parameters)
    *found, by_parameter = layers.forward_and_backward(
        plan,
        batch,
        parameters,
        inputs,
        targets,
        weights,
        network.buffers.get("encoding.frequencies"),
    )
    if plan.complex_tensors:
        named = dict(zip(plan.parameter_names, by_parameter, strict=True))
        by_parameter = list(complex_gradients(plan.complex_tensors, named).values())
    expected = tape_results(network, batch, coordinates, targets, weights)

    assert found == pytest.approx(expected[:2], rel=1e-12)
    for ours, theirs in zip(by_parameter, expected[2], strict=True):
        np.testing.assert_allclose(ours.reshape(theirs.shape), theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("pixels", "points"), [(1, 1), (64, 1), (65, 1), (5, 6), (3, 64)])
def test_rows_come_in_tiles_of_whole_pixels(pixels: int, points: int) -> None:
    batch = BatchPlan(pixels, points, points > 1, "mse", HUBER_DELTA, 1, False)
    rows = layers.valid_rows(batch)
    pixels_of_rows = rows // TILE_ROWS * batch.tile_pixels + rows % TILE_ROWS // points
    assert batch.rows % TILE_ROWS == 0
    assert pixels_of_rows.tolist() == np.repeat(np.arange(pixels), points).tolist()
