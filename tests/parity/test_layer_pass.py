"""The portable kernels compared with the tape in float64."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from neuralfield.engines.complex_layers import real_parameters
from neuralfield.engines.cuda.buffers import Buffers, NetworkArrays, PassArguments
from neuralfield.engines.cuda.portable.complex_pass import make_pass
from neuralfield.engines.cuda.portable.layer_pass import LayerPass
from neuralfield.engines.kernel_plan import TILE_ROWS, BatchPlan, network_plan
from neuralfield.fields import CoordinateNetwork, ImageShape, field_settings
from neuralfield.fields.coordinate_network import CornerBias
from neuralfield.fields.hashgrid import HashEncoding
from neuralfield.images.coordinates import grid
from neuralfield.nn.losses import make_loss, squared_error_of_means
from neuralfield.nn.ops import mean_axis, reshape
from neuralfield.nn.tensor import Tensor, gradients
from neuralfield.rendering import layer_values
from neuralfield.rendering.layer_values import LayerValues
from neuralfield.system.device import gpu_is_present, select_device, to_host

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not gpu_is_present(), reason="no NVIDIA driver answers, or no CuPy"),
]

HUBER_DELTA = 0.1
FIELDS = [
    {"type": "siren", "width": 256, "hidden_layers": 2},
    {"type": "siren", "width": 129, "hidden_layers": 1, "output": "sigmoid"},
    {"type": "mlp", "widths": (1, 300, 17, 512), "activation": "tanh", "coordinates": "corners"},
    {"type": "mlp", "widths": (), "activation": "relu"},
    {"type": "mlp", "widths": (100, 64), "activation": "sigmoid", "bias": False},
    {"type": "fourier", "frequencies": 40, "width": 96, "activation": "relu", "scale": 3.0},
    {"type": "hashgrid", "levels": 5, "features": 4, "log2_table_size": 6, "width": 96},
    {"type": "finer", "width": 129, "hidden_layers": 2, "first_omega_0": 10.0},
    {"type": "wire", "width": 65, "hidden_layers": 2},
    {"type": "gauss", "width": 129, "hidden_layers": 2},
    {"type": "cafe", "scale": 2.0},
    {"type": "cafe", "frequencies": 9, "chebyshev_degree": 7, "factors": 8, "width": 33},
    {"type": "cafe", "chebyshev_degree": 0, "factors": 1, "hidden_layers": 0, "width": 140},
    {"type": "cafe", "frequencies": 1, "chebyshev_degree": 40, "factors": 5, "hidden_layers": 0},
]
TOLERANCE = {"float32": 2e-5, "mixed": 3e-2}
"""Tolerance as a fraction of a gradient's norm."""

RELU_TOLERANCE = {"float32": 2e-5, "mixed": 0.1}
"""Tolerance with relus, some of which rounding to fp16 switches on or off."""


@pytest.fixture(scope="module")
def gpu():
    return select_device("gpu")


@dataclass(frozen=True)
class Case:
    """A network in float64 with values rounded to float32, and a batch of points for it.

    Attributes
    ----------
    network : CoordinateNetwork
    points : ndarray of float32, shape (pixels * points, 2)
    inputs : ndarray of float32, of the same shape
        The points as kernels read them: u and v if the encoding is `CornerBias`.
    targets : ndarray of float32, shape (pixels, channels)
    weights : ndarray of float32, shape (pixels,), or None
    """

    network: CoordinateNetwork
    points: np.ndarray
    inputs: np.ndarray
    targets: np.ndarray
    weights: np.ndarray | None


def make_case(field: dict[str, Any], batch: BatchPlan) -> Case:
    generator = np.random.default_rng(2)
    network = field_settings(field).build(ImageShape(40, 30, batch.channels), generator)
    for features in network.encoding.parameters.values():
        features.data *= 1e4  # their initial values would hardly matter
    rounded = {name: array.astype(np.float32) for name, array in network.arrays.items()}
    network.load(rounded, "rounded")
    points = generator.uniform(-1, 1, size=(batch.pixels * batch.points, 2)).astype(np.float32)
    targets = generator.uniform(size=(batch.pixels, batch.channels)).astype(np.float32)
    weights = generator.uniform(0.5, 2, batch.pixels).astype(np.float32) if batch.weighted else None
    return Case(network, points, as_inputs(network, points), targets, weights)


def as_inputs(network: CoordinateNetwork, points: np.ndarray) -> np.ndarray:
    """Return points as kernels read them: u and v for `CornerBias`, without the column of ones."""
    encoding = network.encoding
    return encoding(points)[:, 1:] if isinstance(encoding, CornerBias) else points


def values_of_the_tape(network: CoordinateNetwork, points: np.ndarray) -> Tensor:
    """Return values in float64; grid cells are found from points in float32, as in the kernels."""
    is_grid = isinstance(network.encoding, HashEncoding)
    return network(points if is_grid else points.astype(np.float64))


def tape_results(case: Case, batch: BatchPlan) -> tuple[list[float], list[np.ndarray]]:
    """Return the loss and squared error, and the gradients of all parameters."""
    count = batch.pixels * batch.channels
    targets, loss_of = case.targets.astype(np.float64), make_loss(batch.loss, HUBER_DELTA)
    values = values_of_the_tape(case.network, case.points)
    if batch.footprint:
        first = (batch.points + 1) // 2
        assert 2 * first == batch.points, "groups of the same size"
        estimates = mean_axis(reshape(values, (batch.pixels, 2, first, batch.channels)), axis=2)
        if batch.loss == "mse":
            loss = squared_error_of_means(estimates, targets, count)
        else:
            loss = loss_of(mean_axis(estimates, axis=1), targets, count)
        errors = estimates.data - targets[:, None, :]
        squared = errors[:, 0] * errors[:, 1]
    else:
        loss = loss_of(values, targets, count)
        squared = (values.data - targets) ** 2
    if case.weights is not None:
        squared = squared * case.weights[:, None]
    found = gradients(loss, list(case.network.parameters.values()))
    return [float(loss.data), float(squared.sum() / count)], found


def rows_of_points(batch: BatchPlan) -> np.ndarray:
    """Return the rows of the batch that hold a point, ordered by pixels and by their points."""
    row = np.arange(batch.rows)
    in_tile = row % TILE_ROWS
    pixel = row // TILE_ROWS * batch.tile_pixels + in_tile // batch.points
    return row[(in_tile < batch.tile_pixels * batch.points) & (pixel < batch.pixels)]


def on_gpu(gpu, arrays: dict[str, np.ndarray]) -> tuple[Any, dict[str, int]]:
    """Concatenate arrays in float32, and return the result and where each array begins."""
    sizes = [array.size for array in arrays.values()]
    offsets = dict(zip(arrays, np.cumsum([0, *sizes[:-1]]).tolist(), strict=True))
    flat = np.concatenate([array.ravel() for array in arrays.values()])
    return gpu.asarray(flat, dtype="float32"), offsets


def frequencies_of(gpu, network: CoordinateNetwork) -> Any:
    found = network.buffers.get("encoding.frequencies")
    return None if found is None else gpu.asarray(found, dtype="float32")


def make_buffers(gpu, case: Case, batch: BatchPlan) -> Buffers:
    tensors = case.network.parameters
    flat, offsets = on_gpu(gpu, {name: tensor.data for name, tensor in tensors.items()})
    inputs = np.zeros((batch.rows, 2), np.float32)
    inputs[rows_of_points(batch)] = case.inputs
    return Buffers(
        parameters=flat,
        offsets=offsets,
        inputs=gpu.asarray(inputs),
        targets=gpu.asarray(case.targets),
        weights=None if case.weights is None else gpu.asarray(case.weights),
        frequencies=frequencies_of(gpu, case.network),
    )


def gradient_of(part, shape: tuple[int, ...]) -> np.ndarray:
    """Sum the partial gradients of a parameter."""
    columns = part.columns or shape[-1]
    rows = np.prod(shape, dtype=int) // columns
    index = part.offset + np.arange(part.parts)[:, None, None] * part.part_stride
    index = index + np.arange(rows)[:, None] * part.row_stride + np.arange(columns)
    parts = to_host(part.array).ravel()[index].astype(np.float64)
    return part.scale * parts.sum(axis=0).reshape(shape)


@pytest.mark.parametrize("budget_bytes", [1 << 30, 1 << 20], ids=["at once", "in chunks"])
@pytest.mark.parametrize("precision", ["float32", "mixed"])
@pytest.mark.parametrize(
    ("loss", "points", "pixels"),
    [("mse", 1, 63), ("mse", 6, 500), ("huber", 1, 1000), ("binary_cross_entropy", 16, 65)],
)
@pytest.mark.parametrize("field", FIELDS, ids=lambda field: str(field))
def test_pass(field, loss, points, pixels, precision, budget_bytes, gpu, monkeypatch) -> None:
    monkeypatch.setattr(LayerPass, "memory_budget_bytes", budget_bytes)
    channels = 4 if loss == "huber" else 1
    batch = BatchPlan(pixels, points, points > 1, loss, HUBER_DELTA, channels, loss == "huber")
    if loss == "binary_cross_entropy":  # values beyond 0 and 1 have gradients that fp16 cannot hold
        field = {**field, "output": "sigmoid"}
    case = make_case(field, batch)
    plan, buffers = network_plan(case.network), make_buffers(gpu, case, batch)
    tested = make_pass(LayerPass, PassArguments(gpu, plan, batch, buffers, precision))
    expected, by_parameter = tape_results(case, batch)
    for _ in range(2):  # a step leaves no state for the next
        tested.launch()
        found = to_host(tested.loss_partials).sum(axis=0)
        is_relu = field.get("activation") == "relu" or field["type"] in ("hashgrid", "cafe")
        tolerance = (RELU_TOLERANCE if is_relu else TOLERANCE)[precision]
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance / 10)
        partials = tested.partial_gradients()
        names = case.network.parameters
        for name, part, gradient in zip(names, partials, by_parameter, strict=True):
            error = np.linalg.norm(gradient_of(part, gradient.shape) - gradient)
            assert error <= tolerance * np.linalg.norm(gradient) + 1e-9, name


@pytest.mark.parametrize("precision", ["float32", "mixed"])
@pytest.mark.parametrize(
    ("field", "width", "height", "chunk_rows"),
    [(FIELDS[0], 401, 353, layer_values._CHUNK_ROWS), *((field, 51, 47, 1024) for field in FIELDS)],
    ids=lambda value: str(value),
)
def test_rendered_values(field, width, height, chunk_rows, precision, gpu, monkeypatch) -> None:
    """The image has several chunks, the last of which is not full."""
    monkeypatch.setattr(layer_values, "_CHUNK_ROWS", chunk_rows)
    network = make_case(field, BatchPlan(1, 1, False, "mse", HUBER_DELTA, 3, False)).network
    plan = network_plan(network)
    arrays = {name: tensor.data for name, tensor in network.parameters.items()}
    if plan.complex_tensors:
        arrays = real_parameters(plan.complex_tensors, arrays)
    on_device = NetworkArrays(*on_gpu(gpu, arrays), frequencies_of(gpu, network))
    tested = LayerValues(gpu, plan, on_device, precision)
    columns = np.linspace(-1, 1, width, dtype=np.float32)
    rows = np.linspace(-0.7, 0.7, height, dtype=np.float32)
    expected = values_of_the_tape(network, grid(columns, rows)).data
    if isinstance(network.encoding, CornerBias):
        columns, rows = (network.encoding.along(i, x) for i, x in enumerate((columns, rows)))
    columns, rows = gpu.asarray(columns), gpu.asarray(rows)
    found = to_host(tested.grid(columns, rows))
    np.testing.assert_array_equal(to_host(tested.points(grid(columns, rows))), found)
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE[precision])
