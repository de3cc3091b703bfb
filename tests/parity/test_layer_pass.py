"""The portable kernels compute what their twin in NumPy computes."""

from typing import Any

import numpy as np
import pytest
from test_kernel_twins import HUBER_DELTA

from neuralfield.engines import layers
from neuralfield.engines.complex_layers import real_parameters
from neuralfield.engines.cuda.buffers import Buffers
from neuralfield.engines.cuda.portable.layer_pass import LayerPass
from neuralfield.engines.plan import BatchPlan, NetworkPlan, network_plan
from neuralfield.fields import PictureShape, field_settings
from neuralfield.rendering import layer_values
from neuralfield.rendering.layer_values import LayerDraw
from neuralfield.system.device import gpu_is_present, select_device, to_host

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not gpu_is_present(), reason="no NVIDIA driver answers, or no CuPy"),
]

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
"""Of a gradient's norm."""

RELU_TOLERANCE = {"float32": 2e-5, "mixed": 0.1}
"""Rounding to fp16 opens and shuts some relus."""


@pytest.fixture(scope="module")
def gpu():
    return select_device("gpu")


def problem(
    field: dict[str, Any], channels: int, batch: BatchPlan
) -> tuple[NetworkPlan, dict[str, Any], Any, Any, Any, Any]:
    """A plan, and what its twin is given."""
    generator = np.random.default_rng(2)
    network = field_settings(field).build(PictureShape(40, 30, channels), generator)
    for features in network.encoding.parameters.values():
        features.data *= 1e4  # fresh ones would hardly matter
    plan = network_plan(network)
    parameters = {name: t.data.astype(np.float32) for name, t in network.parameters.items()}
    if plan.complex_tensors:
        parameters = real_parameters(plan.complex_tensors, parameters)
    inputs = np.zeros((batch.rows, 2), np.float32)
    valid = layers.valid_rows(batch)
    inputs[valid] = generator.uniform(-1, 1, size=(len(valid), 2))
    targets = generator.uniform(size=(batch.pixels, channels)).astype(np.float32)
    weights = generator.uniform(0.5, 2, batch.pixels).astype(np.float32) if batch.weighted else None
    frequencies = network.buffers.get("encoding.frequencies")
    if frequencies is not None:
        frequencies = frequencies.astype(np.float32)
    return plan, parameters, inputs, targets, weights, frequencies


def on_card(gpu, parameters, inputs, targets, weights, frequencies) -> Buffers:
    sizes = [array.size for array in parameters.values()]
    offsets = dict(zip(parameters, np.cumsum([0, *sizes[:-1]]).tolist(), strict=True))
    flat = np.concatenate([array.ravel() for array in parameters.values()])
    weights, frequencies = (a if a is None else gpu.asarray(a) for a in (weights, frequencies))
    arrays = (gpu.asarray(inputs), gpu.asarray(targets), weights, frequencies)
    return Buffers(gpu.asarray(flat), offsets, *arrays)


def gradient_of(partial, shape: tuple[int, ...]) -> np.ndarray:
    """The sum of a gradient's parts."""
    columns = partial.columns or shape[-1]
    rows = np.prod(shape, dtype=int) // columns
    index = partial.offset + np.arange(partial.parts)[:, None, None] * partial.part_stride
    index = index + np.arange(rows)[:, None] * partial.row_stride + np.arange(columns)
    parts = to_host(partial.array).ravel()[index].astype(np.float64)
    return partial.scale * parts.sum(axis=0).reshape(shape)


@pytest.mark.parametrize("budget_bytes", [1 << 30, 1 << 20], ids=["at once", "in chunks"])
@pytest.mark.parametrize("precision", ["float32", "mixed"])
@pytest.mark.parametrize(
    ("loss", "points", "pixels"),
    [("mse", 1, 63), ("mse", 6, 500), ("huber", 1, 1000), ("binary_cross_entropy", 16, 65)],
)
@pytest.mark.parametrize("field", FIELDS, ids=lambda field: str(field))
def test_pass(field, loss, points, pixels, precision, budget_bytes, gpu) -> None:
    channels = 4 if loss == "huber" else 1
    batch = BatchPlan(pixels, points, points > 1, loss, HUBER_DELTA, channels, loss == "huber")
    if loss == "binary_cross_entropy":  # values beyond 0 and 1 have slopes that fp16 cannot hold
        field = {**field, "output": "sigmoid"}
    plan, parameters, *arrays = problem(field, channels, batch)
    buffers = on_card(gpu, parameters, *arrays)
    tested = LayerPass(gpu, plan, batch, buffers, precision, budget_bytes)
    expected = layers.forward_and_backward(plan, batch, parameters, *arrays)
    for _ in range(2):  # nothing is left over from a step for the next
        tested.launch()
        found = to_host(tested.loss_partials).sum(axis=0)
        is_relu = field.get("activation") == "relu" or field["type"] in ("hashgrid", "cafe")
        tolerance = (RELU_TOLERANCE if is_relu else TOLERANCE)[precision]
        np.testing.assert_allclose(found, expected[:2], rtol=tolerance, atol=tolerance / 10)
        partials = tested.partial_gradients()
        for name, partial, gradient in zip(parameters, partials, expected[2], strict=True):
            error = np.linalg.norm(gradient_of(partial, parameters[name].shape) - gradient)
            assert error <= tolerance * np.linalg.norm(gradient) + 1e-9, name


@pytest.mark.parametrize("precision", ["float32", "mixed"])
@pytest.mark.parametrize(
    ("field", "width", "height", "chunk_rows"),
    [(FIELDS[0], 401, 353, layer_values._CHUNK_ROWS), *((field, 51, 47, 1024) for field in FIELDS)],
    ids=lambda value: str(value),
)
def test_draw(field, width, height, chunk_rows, precision, gpu, monkeypatch) -> None:
    """In several chunks, the last one not full."""
    monkeypatch.setattr(layer_values, "_CHUNK_ROWS", chunk_rows)
    batch = BatchPlan(1, 1, False, "mse", HUBER_DELTA, 3, False)
    plan, parameters, *arrays = problem(field, 3, batch)
    buffers = on_card(gpu, parameters, *arrays)
    tested = LayerDraw(
        *(gpu, plan, buffers.parameters, buffers.offsets, buffers.frequencies, precision)
    )
    columns = np.linspace(-1, 1, width, dtype=np.float32)
    rows = np.linspace(-0.7, 0.7, height, dtype=np.float32)
    points = np.stack(np.meshgrid(columns, rows), axis=-1).reshape(-1, 2)
    expected, _, _ = layers.forward(plan, parameters, points, arrays[-1])
    found = to_host(tested.grid(gpu.asarray(columns), gpu.asarray(rows)))
    np.testing.assert_array_equal(to_host(tested.points(gpu.asarray(points))), found)
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE[precision])
