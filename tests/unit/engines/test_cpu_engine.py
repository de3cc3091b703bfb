"""The cpu engine compared with the tape in float64; results do not depend on the threads."""

from typing import Any

import llvmlite.binding
import numba.core.config
import numpy as np
import pytest
import test_fit
from finite_differences import sum_all
from make_objective import make_objective
from numba import njit

from neuralfield import fields
from neuralfield.engines import thread_pool
from neuralfield.engines.cpu import cut as cpu_cut
from neuralfield.engines.cpu.cpu_engine import CpuEngine
from neuralfield.engines.cpu.kernels import functions, layout
from neuralfield.engines.tape import TapeEngine
from neuralfield.fields import CoordinateNetwork, ImageShape, build_field, field_settings
from neuralfield.nn import ops
from neuralfield.nn.layers import ACTIVATIONS, KERNEL_ACTIVATIONS
from neuralfield.nn.schedules import Schedule
from neuralfield.nn.tensor import Tensor, gradients
from neuralfield.rendering import make_renderer
from neuralfield.rendering.array_renderer import ArrayRenderer
from neuralfield.rendering.cpu_renderer import CpuRenderer
from neuralfield.system.device import select_device
from neuralfield.system.errors import ResourceError
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.image.presets import read_preset
from neuralfield.training.trainer import Trainer

CPU = select_device("cpu")

HASHED = {"levels": 5, "base_resolution": 3, "log2_table_size": 6}
"""The coarser grids have a row for each corner; in the finer ones, several corners share a row."""

NETWORKS = {
    "siren": {"type": "siren", "width": 24, "hidden_layers": 2},
    "siren, wide": {"type": "siren", "width": 131, "hidden_layers": 1},
    "fourier": {"type": "fourier", "frequencies": 9, "scale": 3.0, "width": 20},
    "original": read_preset("original"),
    "no bias": {"type": "mlp", "widths": [16, 33], "activation": "sine", "bias": False},
    "one layer": {"type": "mlp", "widths": []},
    "finer": {"type": "finer", "width": 24, "hidden_layers": 2, "first_bias": 1.0},
    "gauss": {"type": "gauss", "width": 24, "hidden_layers": 2, "scale": 3.0},
    "wire": {"type": "wire", "width": 12, "hidden_layers": 2},
    "wire, odd": {"type": "wire", "width": 33, "hidden_layers": 1, "omega_0": 7.0, "scale": 4.0},
    "cafe": {"type": "cafe", "frequencies": 9, "width": 20},
    "cafe, odd": {"type": "cafe", "frequencies": 3, "factors": 4, "width": 11, "hidden_layers": 2},
    "cafe, one factor": {"type": "cafe", "frequencies": 9, "factors": 1, "chebyshev_degree": 0},
    "hashgrid": {"type": "hashgrid", "width": 20} | HASHED,
    "hashgrid, cropped": {"type": "hashgrid", "activation": "tanh", "cropped": True} | HASHED,
    "hashgrid, odd": {"type": "hashgrid", "levels": 3, "features": 3, "width": 9},
} | {
    name: {"type": "mlp", "widths": [20, 12, 17], "activation": name, "output": "sigmoid"}
    for name in ACTIVATIONS
}
"""Networks with widths that are a whole number of vectors, and with other widths."""

BATCHES = {
    "everything": {},
    "a part, at random": {"batch_pixels": 111, "channels": 3},
    "by contrast, footprint": {"batch_pixels": 99, "detail_share": 0.5, "points": 5},
    "footprint of everything": {"points": 2, "channels": 3},
}


def trained(make, dtype, *, steps=1, threads=2, **settings):
    objective = make_objective(dtype=dtype, **settings)
    engine = make(objective, CPU, threads)
    engine.run(0, steps)
    engine.close()
    return objective, engine.totals


def first_gradient(make, dtype, **settings):
    """Return gradients by parameter, from Adam's moment, and the loss and squared error."""
    objective, totals = trained(make, dtype, optimizer="adam", **settings)
    state = objective.optimizer.state
    return {name: state[f"moment1.{name}"] / 0.1 for name in objective.network.parameters}, totals


def require_gradient_of_the_tape(limit=2e-5, **settings):
    found, totals = first_gradient(CpuEngine, "float32", **settings)
    expected, expected_totals = first_gradient(TapeEngine, "float64", **settings)
    for name, gradient in expected.items():
        error = np.linalg.norm(found[name] - gradient)
        assert error < limit * np.linalg.norm(gradient), name
    np.testing.assert_allclose(totals, expected_totals, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("network", NETWORKS)
def test_gradients_are_those_of_the_tape(network, batch):
    require_gradient_of_the_tape(field=NETWORKS[network], seed=7, **BATCHES[batch])


@pytest.mark.parametrize("points", [1, 4])
@pytest.mark.parametrize("loss", ["mse", "huber", "binary_cross_entropy"])
def test_gradients_of_losses_are_those_of_the_tape(loss, points):
    field = NETWORKS["siren"] | {"output": "sigmoid"}
    require_gradient_of_the_tape(field=field, loss=loss, points=points)


def relative_error(found, exact):
    difference = sum(np.sum((found[name] - exact[name]) ** 2) for name in exact)
    return np.sqrt(difference / sum(np.sum(gradient**2) for gradient in exact.values()))


def test_fast_sines_lose_no_more_than_float32_does():
    """With phases of some thousand radians, no float32 gradient is close to the exact one."""
    field = {"type": "finer", "width": 33, "hidden_layers": 1, "first_bias": 20.0}
    exact, _ = first_gradient(TapeEngine, "float64", field=field)
    on_tape, found = (
        relative_error(first_gradient(make, "float32", field=field)[0], exact)
        for make in (TapeEngine, CpuEngine)
    )
    assert 1e-4 < found < 3 * on_tape


def test_more_points_of_a_pixel_than_a_block_of_a_wide_network_has():
    field = {"type": "siren", "width": 1600, "hidden_layers": 1}
    require_gradient_of_the_tape(field=field, width=2, height=1, points=64)


@pytest.mark.parametrize("batch", BATCHES)
def test_gradients_of_grids_are_those_of_the_tape_chunk_by_chunk(batch, monkeypatch):
    monkeypatch.setattr(cpu_cut, "_MOST_CHUNK_NUMBERS", 1)
    monkeypatch.setattr(layout, "_MOST_ROWS", 48)
    require_gradient_of_the_tape(field=NETWORKS["hashgrid"], **BATCHES[batch])


@pytest.mark.parametrize("kind", fields.FIELDS)
def test_every_kind_of_field_is_among_the_networks_or_left_to_the_tape(kind):
    is_known = any(network["type"] == kind for network in NETWORKS.values())
    assert is_known == fields.FIELDS[kind].has_kernels


HIGH = Schedule("constant", 1.0, 0.0, 100)

EVERYTHING = {"optimizer": "muon", "gradient_clip_norm": 1e-2}
"""Settings with a maximum norm that gradients exceed."""


@pytest.mark.parametrize(
    "optimizer",
    [
        {"optimizer": "adam", "beta1": 0.8, "beta2": 0.95},
        {"optimizer": "sgd"},
        {"optimizer": "sgd", "momentum": 0.9},
        {"optimizer": "sgd", "gradient_clip_norm": 1e-2, "schedule": HIGH},
        {"optimizer": "muon"},
        EVERYTHING,
    ],
)
@pytest.mark.parametrize("network", ["siren", "wire", "cafe", "hashgrid", "tanh"])
def test_a_training_is_that_of_the_tape(network, optimizer):
    field = NETWORKS[network]
    settings = optimizer | {"field": field, "batch_pixels": 100, "points": 3, "steps": 8}
    (found, _), (expected, _) = (
        trained(CpuEngine, "float32", **settings),
        trained(TapeEngine, "float64", **settings),
    )
    start = make_objective(field, dtype="float64").network
    for name, tensor in expected.network.parameters.items():
        moved = np.linalg.norm(tensor.data - start.parameters[name].data)
        error = np.linalg.norm(found.network.parameters[name].data - tensor.data)
        rounding = 1e-7 * np.linalg.norm(tensor.data)
        assert 0 < error < 5e-3 * moved + rounding


@pytest.mark.parametrize("batch", ["everything", "by contrast, footprint"])
@pytest.mark.parametrize("optimizer", [{}, EVERYTHING])
@pytest.mark.parametrize("network", ["siren", "finer", "wire", "gauss", "cafe", "hashgrid"])
def test_the_number_of_threads_changes_no_bit(network, optimizer, batch, monkeypatch):
    monkeypatch.setattr(cpu_cut, "_MOST_CHUNK_NUMBERS", 1 << 14)
    settings = BATCHES[batch] | {"width": 90, "height": 70, "steps": 3, "field": NETWORKS[network]}
    settings |= optimizer
    if "batch_pixels" in settings:
        settings["batch_pixels"] = 2000
    runs = [trained(CpuEngine, "float32", threads=n, **settings) for n in (1, 2, 4)]
    for objective, totals in runs[1:]:
        np.testing.assert_array_equal(totals, runs[0][1])
        for name, array in objective.network.arrays.items():
            np.testing.assert_array_equal(array, runs[0][0].network.arrays[name])


@pytest.mark.parametrize("optimizer", [{}, EVERYTHING])
@pytest.mark.parametrize("network", ["siren", "finer", "wire", "gauss", "cafe", "hashgrid"])
def test_a_training_that_goes_on_from_a_saved_state_ends_with_the_same_bytes(network, optimizer):
    settings = {"steps": 40, "supervision": "footprint", "batch_pixels": 30, "detail_share": 0.5}
    settings |= optimizer
    whole, first, second = (
        Trainer(test_fit.make_task(NETWORKS[network], **settings), CPU, "cpu", 1, print)
        for _ in range(3)
    )
    for trainer, end in ((whole, 40), (first, 7), (second, 40)):
        if trainer is second:
            second.restore(*first.state())
        while trainer.steps_taken < end:
            count = trainer.steps_ahead(end)
            trainer.engine.run(trainer.steps_taken, count)
            trainer.count_steps(count, 0, trainer.engine.totals)
        trainer.engine.close()
    for name, array in whole.network.arrays.items():
        np.testing.assert_array_equal(second.network.arrays[name], array)


def test_a_loss_that_is_not_finite_is_seen():
    objective = make_objective()
    objective.network.parameters["layers.0.weight"].data[0, 0] = np.inf
    engine = CpuEngine(objective, CPU, 1)
    engine.run(0, 1)
    engine.close()
    assert not np.isfinite(engine.totals[0])


def test_what_does_not_fit_into_memory_is_refused(monkeypatch):
    monkeypatch.setattr("neuralfield.system.device.available_memory_bytes", lambda device: 1000)
    with pytest.raises(ResourceError, match="training: needs about"):
        CpuEngine(make_objective(), CPU, 1)


def test_an_error_in_a_thread_reaches_the_caller():
    threads = thread_pool.ThreadPool(3)

    def fail(piece, thread):
        if piece == 5:
            raise ValueError("piece 5")

    with pytest.raises(ValueError, match="piece 5"):
        threads.run(fail, 9)
    threads.close()


def kernels_have_fma() -> bool:
    """Check whether Numba's target processor has fused multiply-add instructions."""
    asked_for = getattr(numba.core.config, "CPU_FEATURES", None)
    return "+fma" in (asked_for or llvmlite.binding.get_host_cpu_features().flatten())


EXACT = {name: function.of for name, function in ACTIVATIONS.items()} | {
    "variable sine": lambda x: ops.variable_sine(ops.multiply(x, 1 / 30), 30),
    "gaussian": ops.gaussian,
}


_activate: Any = njit(functions.activate)
"""The kernels' function, compiled so that Python can call it."""


@pytest.mark.parametrize("name", functions.ACTIVATIONS)
def test_activations_and_their_gradients_are_exact_to_some_units_in_the_last_place(name):
    # without fused multiply-add, the reduction of the argument is accurate over a shorter range
    largest = (1e5 if kernels_have_fma() else 1e4) if name == "sine" else 100
    spread = np.linspace(-1, 1, 20001)
    arguments = np.concatenate([spread * largest, spread * 4]).astype(np.float32)
    derivatives, values = arguments.copy(), np.empty_like(arguments)
    kind = KERNEL_ACTIVATIONS.index(name)
    _activate(kind, np.float32(30), derivatives, values, True)
    x = Tensor(arguments.astype(np.float64), differentiable=True)
    y = EXACT[name](x)
    (derivative,) = gradients(sum_all(y), [x])
    # finer's phase is a product, which is rounded before the sine
    rounding = 2e-7 * np.abs(x.data) * (1 + np.abs(x.data) / 30) if name == "variable sine" else 0
    for found, expected in ((values, y.data), (derivatives, derivative)):
        size = np.maximum(np.abs(expected), 1)
        error = np.abs(found - expected)
        assert np.all(error <= 2e-7 * size + rounding * np.abs(derivative).max())


@pytest.mark.parametrize("network", NETWORKS)
def test_pixels_are_rendered_as_by_arrays(network):
    settings = field_settings(NETWORKS[network])
    shape = ImageShape(30, 20, 3)
    model = Model(settings, shape, "rgb", build_field(settings, shape, 1).arrays, {})
    columns, rows = np.linspace(-1, 1, 70), np.linspace(-0.6, 0.6, 50)
    offsets = np.array([[0, 0], [1e-3, 2e-3], [-3e-3, 1e-3]])
    renderer = make_renderer(model, CPU, 2)
    assert isinstance(renderer, CpuRenderer)
    exactly = model.network(CPU, "float64")
    assert isinstance(exactly, CoordinateNetwork)
    reference = ArrayRenderer(exactly, CPU, "float64", 1)
    for which in (None, np.array([7, 3499, 20])):
        rendered = renderer.pixels(columns, rows, offsets, which)
        exact = reference.pixels(columns, rows, offsets, which)
        for found, expected in zip(rendered, exact, strict=True):
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, atol=1e-4)
    renderer.close()
    reference.close()
