"""The cuda engine against the tape: gradients, whole trainings, and after a kill."""

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
import test_fit
from make_problem import SIREN, make_problem

from neuralfield.device import gpu_is_present, select_device, to_host
from neuralfield.engines import cuda, make_engine
from neuralfield.engines.cuda import CudaEngine
from neuralfield.engines.hopper_narrow_pass import HopperNarrowPass
from neuralfield.engines.hopper_pass import HopperPass
from neuralfield.engines.hopper_product_pass import HopperProductPass
from neuralfield.engines.layer_pass import LayerPass
from neuralfield.engines.plans import batch_plan, network_plan
from neuralfield.engines.tape import TapeEngine
from neuralfield.errors import ResourceError
from neuralfield.metrics import psnr_db
from neuralfield.model import load_model
from neuralfield.render import render
from neuralfield.schedules import Schedule

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not gpu_is_present(), reason="no NVIDIA driver answers, or no CuPy"),
]

CPU = select_device("cpu")
WAVES_4X64 = {
    "type": "fourier",
    "frequencies": 20,
    "hidden_layers": 4,
    "width": 64,
    "scale": 2.0,
}
ORIGINAL = {"type": "mlp", "preset": "original"}
GRIDS = {
    "type": "hashgrid",
    "levels": 6,
    "base_resolution": 3,
    "log2_table_size": 7,
    "hidden_layers": 2,
    "width": 64,
}
FINER = {"type": "finer", "hidden_layers": 2, "first_omega_0": 20.0, "omega_0": 30.0}
GAUSS = {"type": "gauss", "hidden_layers": 2}
CAFE = {"type": "cafe", "scale": 2.0}
PASSES_AND_PRECISIONS = [
    (HopperNarrowPass, "mixed"),
    (HopperPass, "mixed"),
    (HopperProductPass, "mixed"),
    (LayerPass, "mixed"),
    (LayerPass, "float32"),
]
MUON: dict[str, Any] = {"optimizer": "muon"}
CLIPPED: dict[str, Any] = {"gradient_clip_norm": 0.05}
EVERYTHING: dict[str, Any] = {"optimizer": "muon", "gradient_clip_norm": 0.05, "keep_best": True}
MOST_RELATIVE_ERROR = {"mixed": 1e-2, "float32": 2e-4}
MOST_ERROR_BEHIND_FEATURES = {"mixed": 3e-2, "float32": 2e-4}
"""Features rounded to fp16 open and shut some relus."""


@pytest.fixture(scope="module")
def gpu():
    return select_device("gpu")


def gradients_of(engine):
    """Of the engine's first batch, which its construction has sent through the pass."""
    summed = []
    for partial in engine._pass.partial_gradients():
        flat = to_host(partial.array).ravel()[partial.offset :].astype(np.float64)
        summed.append((partial, flat))
    gradients = {}
    tensors = engine._problem.network.parameters
    for (name, tensor), (partial, flat) in zip(tensors.items(), summed, strict=True):
        columns = partial.columns or tensor.shape[-1]
        rows = tensor.data.size // columns
        strides = (8 * partial.part_stride, 8 * partial.row_stride, 8)
        parts = np.lib.stride_tricks.as_strided(flat, (partial.parts, rows, columns), strides)
        gradients[name] = (partial.scale * parts.sum(axis=0)).reshape(tensor.shape)
    return gradients


def reference_gradients(field, settings):
    """The tape's in float64, from a step of plain descent with a rate of 1."""
    plain: dict[str, Any] = {"optimizer": "sgd", "schedule": Schedule("constant", 1.0, 0.0, 10)}
    problem = make_problem(field, dtype="float64", **settings, **plain)
    before = {name: tensor.data.copy() for name, tensor in problem.network.parameters.items()}
    engine = TapeEngine(problem, CPU, 1)
    engine.run(0, 1)
    after = problem.network.parameters
    return {name: array - after[name].data for name, array in before.items()}, engine.totals


def make_cuda_engine(gpu, monkeypatch, pass_type, precision, problem):
    plans = network_plan(problem.network), batch_plan(problem)
    capability = int(gpu.xp.cuda.Device().compute_capability)
    reason = pass_type.reason_against(*plans, precision, capability)
    if reason:
        pytest.skip(reason)
    monkeypatch.setattr(cuda, "_PASSES", (pass_type,))
    return CudaEngine(problem, gpu, precision)


def mlp(activation, *widths, **settings):
    return {"type": "mlp", "activation": activation, "widths": list(widths), **settings}


CASES = {
    "siren": (SIREN, {}),
    "siren, no hidden layer": ({**SIREN, "hidden_layers": 0}, {}),
    "siren 64, colour": ({**SIREN, "width": 64}, {"channels": 3}),
    "siren 128, transparent": ({**SIREN, "width": 128}, {"channels": 4}),
    "siren 256": ({**SIREN, "width": 256}, {"batch_pixels": 300}),
    "siren 96, footprint 4": ({**SIREN, "width": 96}, {"points": 4, "batch_pixels": 200}),
    "siren, footprint 2": (SIREN, {"points": 2, "channels": 3}),
    "siren, footprint 5, density": (
        SIREN,
        {"points": 5, "batch_pixels": 100, "detail_share": 0.5, "channels": 3},
    ),
    "siren, footprint 64": (SIREN, {"points": 64, "batch_pixels": 5}),
    "tanh, unequal": (mlp("tanh", 40, 17, 64), {}),
    "relu, unequal": (mlp("relu", 33, 80), {"channels": 3}),
    "sigmoid, unequal": (mlp("sigmoid", 50, 20), {}),
    "no bias": (mlp("tanh", 32, 32, bias=False), {}),
    "original": (ORIGINAL, {"batch_pixels": 200}),
    "original, footprint": (ORIGINAL, {"batch_pixels": 100, "points": 3}),
    "fourier": ({"type": "fourier", "frequencies": 20, "width": 48, "scale": 2.0}, {"channels": 3}),
    "waves, narrow layers": (
        {"type": "fourier", "frequencies": 7, "hidden_layers": 3, "width": 24, "scale": 0.5},
        {"channels": 4},
    ),
    "relu 4x64 of 40 waves": (WAVES_4X64, {"channels": 3, "width": 80, "height": 50}),
    "relu 4x64 of 40 waves, footprint 4": (
        WAVES_4X64,
        {"channels": 3, "points": 4, "width": 80, "height": 50},
    ),
    "grids": (GRIDS, {"channels": 3, "width": 80, "height": 50}),
    "grids, one pixel": (GRIDS, {"width": 1, "height": 1}),
    "grids, a line": (GRIDS, {"width": 3, "height": 61, "channels": 4}),
    "grids, some pixels": (GRIDS, {"batch_pixels": 100, "channels": 3}),
    "grids, one of the pixels": (GRIDS, {"batch_pixels": 1}),
    "grids, footprint 4": (GRIDS, {"points": 4}),
    "grids, footprint 3, density": (
        GRIDS,
        {"points": 3, "batch_pixels": 65, "detail_share": 0.5, "channels": 3},
    ),
    "grids of 1 number, narrow": (
        {**GRIDS, "features": 1, "width": 20, "hidden_layers": 1},
        {"channels": 2},
    ),
    "grids of 3 numbers, fine": (
        {**GRIDS, "levels": 3, "features": 3, "finest_resolution": 200, "width": 40},
        {"width": 33, "height": 70},
    ),
    "grids of 4 numbers": (
        {**GRIDS, "levels": 5, "features": 4, "hidden_layers": 3, "width": 32},
        {"channels": 3},
    ),
    "one grid of 8 numbers, wide": ({**GRIDS, "levels": 1, "features": 8, "width": 100}, {}),
    "siren 5x64": ({**SIREN, "width": 64, "hidden_layers": 4}, {"channels": 2}),
    "relu, 8 layers": (mlp("relu", *[32] * 8), {"channels": 3}),
    "tanh, 6 layers": (mlp("tanh", 16, 24, 32, 24, 48, 16), {"channels": 3, "points": 3}),
    "sigmoid 2x64, no bias": (mlp("sigmoid", 64, 64, bias=False), {"points": 2}),
    "finer": ({**FINER, "width": 24}, {}),
    "finer 256, footprint 3": ({**FINER, "width": 256}, {"channels": 3, "points": 3}),
    "finer 64, colour": ({**FINER, "width": 64}, {"channels": 3}),
    "finer 100, transparent": ({**FINER, "width": 100, "hidden_layers": 1}, {"channels": 4}),
    "finer, far out": ({**FINER, "width": 40, "first_bias": 8.0}, {"batch_pixels": 65}),
    "gauss": ({**GAUSS, "width": 24}, {}),
    "gauss 256, footprint 3": ({**GAUSS, "width": 256}, {"channels": 3, "points": 3}),
    "gauss 64, colour": ({**GAUSS, "width": 64}, {"channels": 3}),
    "gauss 100, transparent": ({**GAUSS, "width": 100, "hidden_layers": 1}, {"channels": 4}),
    "cafe": (CAFE, {"channels": 3}),
    "cafe, footprint 3": (CAFE, {"channels": 3, "points": 3, "batch_pixels": 100}),
    "cafe, some pixels, transparent": (CAFE, {"channels": 4, "batch_pixels": 65}),
    "cafe of 7 factors, odd sizes": (
        {**CAFE, "frequencies": 9, "chebyshev_degree": 5, "factors": 7, "width": 33},
        {"channels": 2, "batch_pixels": 63},
    ),
    "cafe, no polynomials": ({**CAFE, "chebyshev_degree": 0, "factors": 2, "width": 64}, {}),
    "cafe, no layer behind": ({**CAFE, "hidden_layers": 0, "width": 40}, {"channels": 3}),
    "cafe, three layers behind": ({**CAFE, "hidden_layers": 3, "width": 48}, {"points": 4}),
    "cross-entropy": (
        {**SIREN, "output": "sigmoid"},
        {"loss": "binary_cross_entropy", "batch_pixels": 100},
    ),
    "cross-entropy, footprint": (
        {**SIREN, "output": "sigmoid"},
        {"loss": "binary_cross_entropy", "batch_pixels": 64, "points": 3},
    ),
    "huber": (SIREN, {"loss": "huber"}),
    "huber, footprint": (SIREN, {"loss": "huber", "points": 4, "batch_pixels": 100}),
    **{
        f"batch of {pixels}": (SIREN, {"batch_pixels": pixels, "width": 40, "height": 30})
        for pixels in (1, 63, 64, 65, 1000)
    },
    **{
        f"batch of {pixels}, footprint 3": (
            SIREN,
            {"batch_pixels": pixels, "width": 40, "height": 30, "points": 3},
        )
        for pixels in (1, 63, 64, 65, 1000)
    },
}


@pytest.mark.parametrize(("pass_type", "precision"), PASSES_AND_PRECISIONS)
@pytest.mark.parametrize("case", CASES)
def test_gradients_are_those_of_the_tape(gpu, monkeypatch, case, pass_type, precision):
    field, settings = CASES[case]
    problem = make_problem(field, device=gpu, **settings)
    engine = make_cuda_engine(gpu, monkeypatch, pass_type, precision, problem)
    gradients = gradients_of(engine)
    expected, expected_totals = reference_gradients(field, settings)
    errors = {
        name: np.linalg.norm(gradients[name] - array) / np.linalg.norm(array)
        for name, array in expected.items()
    }
    opens_relus = field["type"] in ("hashgrid", "cafe")
    limits = MOST_ERROR_BEHIND_FEATURES if opens_relus else MOST_RELATIVE_ERROR
    assert max(errors.values()) < limits[precision], errors
    engine.run(0, 1)
    tolerance = MOST_RELATIVE_ERROR[precision]
    np.testing.assert_allclose(to_host(engine.totals), expected_totals, rtol=tolerance, atol=1e-5)
    engine.close()


class LayersInChunks(LayerPass):
    """A pass with little memory."""

    def __init__(self, *arguments):
        super().__init__(*arguments, memory_budget_bytes=1 << 19)


@pytest.mark.parametrize("precision", ["mixed", "float32"])
@pytest.mark.parametrize("settings", [{}, {"points": 3}, {"batch_pixels": 1111}], ids=str)
def test_chunks_change_no_bit_of_the_gradient_of_grids(gpu, monkeypatch, settings, precision):
    found = []
    for pass_type in (LayerPass, LayersInChunks):
        problem = make_problem(GRIDS, device=gpu, width=80, height=50, **settings)
        engine = make_cuda_engine(gpu, monkeypatch, pass_type, precision, problem)
        found.append(gradients_of(engine)["encoding.table"])
        engine.close()
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(("pass_type", "precision"), PASSES_AND_PRECISIONS)
@pytest.mark.parametrize("points", [1, 4])
@pytest.mark.parametrize("field", [SIREN, CAFE], ids=lambda field: field["type"])
def test_a_training_goes_where_the_tape_goes(gpu, monkeypatch, field, pass_type, precision, points):
    settings: dict[str, Any] = {
        "batch_pixels": 100,
        "detail_share": 0.5,
        "points": points,
        "channels": 3,
    }
    problem = make_problem(field, device=gpu, **settings)
    twin = TapeEngine(make_problem(field, **settings), CPU, 1)
    engine = make_cuda_engine(gpu, monkeypatch, pass_type, precision, problem)
    for first in range(0, 200, 50):  # later steps differ as any two roundings do
        engine.totals.fill(0)
        twin.totals.fill(0)
        engine.run(first, 50)
        twin.run(first, 50)
        tolerance = 0.05 if precision == "mixed" else 0.01
        np.testing.assert_allclose(to_host(engine.totals), twin.totals, rtol=tolerance)
    engine.close()


@pytest.mark.parametrize(("pass_type", "precision"), PASSES_AND_PRECISIONS)
@pytest.mark.parametrize("settings", [MUON, CLIPPED, MUON | CLIPPED], ids=str)
def test_muon_and_clipping_go_where_the_tape_in_float64_goes(
    gpu, monkeypatch, settings, pass_type, precision
):
    """After one step parameters are near the tape's, after ten and more the loss is."""
    settings = {"batch_pixels": 100, "points": 3, "channels": 3} | settings
    problem = make_problem(device=gpu, **settings)
    twin = TapeEngine(make_problem(dtype="float64", **settings), CPU, 1)
    before = {name: to_host(array) for name, array in problem.network.arrays.items()}
    engine = make_cuda_engine(gpu, monkeypatch, pass_type, precision, problem)
    engine.run(0, 1)
    twin.run(0, 1)
    # what a gradient has next to nothing of, Muon moves as far as the rest: also its roundings
    tolerance = {"mixed": 0.1, "float32": 0.01}[precision]
    for name, array in twin.problem.network.arrays.items():
        moved = to_host(problem.network.arrays[name]) - before[name]
        expected = array - before[name]
        difference = np.linalg.norm(moved - expected)
        assert difference < tolerance * np.linalg.norm(expected), name
    for first, count in ((1, 9), (10, 90)):
        engine.totals.fill(0)
        twin.totals.fill(0)
        engine.run(first, count)
        twin.run(first, count)
        tolerance = 0.05 if precision == "mixed" else 0.01
        np.testing.assert_allclose(to_host(engine.totals), twin.totals, rtol=tolerance)
    engine.close()


@pytest.mark.parametrize(
    ("field", "settings"),
    [
        (SIREN, {"batch_pixels": 100, "points": 3}),
        (SIREN, {"batch_pixels": 100, "points": 3} | MUON | CLIPPED),
        (GRIDS, {"batch_pixels": 100, "points": 3}),
        (GRIDS, {"width": 80, "height": 50}),
        (CAFE, {"batch_pixels": 100, "points": 3} | MUON | CLIPPED),
        (CAFE, {"width": 80, "height": 50}),
    ],
)
@pytest.mark.parametrize("precision", ["mixed", "float32"])
def test_how_steps_are_cut_into_calls_changes_nothing(gpu, field, settings, precision):
    whole, pieces = (
        CudaEngine(make_problem(field, device=gpu, **settings), gpu, precision) for _ in range(2)
    )
    whole.run(0, 100)
    first = 0
    for count in (1, 15, 16, 17, 2, 49):
        pieces.run(first, count)
        first += count
    np.testing.assert_array_equal(to_host(whole.totals), to_host(pieces.totals))
    for name, array in whole._problem.network.arrays.items():
        np.testing.assert_array_equal(to_host(array), to_host(pieces._problem.network.arrays[name]))


def test_two_engines_at_once_do_not_meet(gpu):
    """One of another shape, and one of the same, whose compiled kernels are shared."""
    everyone: list[dict[str, Any]] = [
        {"batch_pixels": 100, "points": 3},
        {"batch_pixels": 100, "points": 3},
        {"channels": 3, "optimizer": "sgd", "momentum": 0.9},
    ]
    alone = []
    for settings in everyone:
        engine = CudaEngine(make_problem(device=gpu, **settings), gpu, "auto")
        engine.run(0, 60)
        alone.append(to_host(engine.totals))
        engine.close()
    together = [
        CudaEngine(make_problem(device=gpu, **settings), gpu, "auto") for settings in everyone
    ]
    for first in range(0, 60, 20):
        for engine in together:
            engine.run(first, 20)
    for engine, totals in zip(together, alone, strict=True):
        np.testing.assert_array_equal(to_host(engine.totals), totals)
        engine.close()


@pytest.mark.parametrize("settings", [{}, MUON | CLIPPED], ids=["adam", "muon, clipped"])
def test_steps_allocate_nothing(gpu, settings):
    problem = make_problem(device=gpu, batch_pixels=100, points=4, **settings)
    engine = CudaEngine(problem, gpu, "auto")
    engine.run(0, 20)
    asked_for = []

    class Watch(gpu.xp.cuda.MemoryHook):
        name = "watch"

        def malloc_preprocess(self, **details):
            asked_for.append(details)

    with Watch():
        engine.run(20, 1000)
        gpu.synchronize()
    assert asked_for == []
    report = engine.memory_report()
    assert set(report) == {"parameters", "optimizer", "picture", "density", "batch", "pass"}
    assert report["optimizer"] >= 2 * report["parameters"] > 0
    assert settings or report["optimizer"] == 2 * report["parameters"]
    engine.close()


def test_a_profile_is_taken_stage_by_stage_with_the_same_result(gpu, monkeypatch):
    settings: dict[str, Any] = {"batch_pixels": 100, "points": 4}
    engine = CudaEngine(make_problem(device=gpu, **settings), gpu, "auto")
    engine.run(0, 20)
    monkeypatch.setenv("NEURALFIELD_PROFILE", "1")
    profiled = CudaEngine(make_problem(device=gpu, **settings), gpu, "auto")
    profiled.run(0, 20)
    np.testing.assert_array_equal(to_host(profiled.totals), to_host(engine.totals))


def test_too_little_memory_is_refused_with_what_to_do(gpu, monkeypatch):
    monkeypatch.setattr("neuralfield.device.available_memory_bytes", lambda device: 1000)
    problem = make_problem(device=gpu)
    with pytest.raises(ResourceError, match=r"needs about .* use smaller batches"):
        make_engine("cuda", "auto", problem, gpu, 1, print)


@pytest.mark.parametrize("supervision", ["point", "footprint"])
def test_a_training_learns_and_says_how(tmp_path, monkeypatch, gpu, supervision):
    monkeypatch.setattr(test_fit, "CPU", gpu)
    task = test_fit.make_task(steps=600, batch_pixels=0, supervision=supervision)
    test_fit.train(task, tmp_path, engine="cuda")
    model = load_model(tmp_path / "model.safetensors")
    assert (model.metadata["engine"], model.metadata["precision"]) == ("cuda", "mixed")
    drawn = render(model, 20, 16, device=CPU)
    assert psnr_db(drawn, task.values) > 27
    np.testing.assert_allclose(render(model, 20, 16, device=gpu), drawn, atol=1e-2)


@pytest.mark.parametrize("precision", ["mixed", "float32"])
def test_the_best_network_is_kept(tmp_path, monkeypatch, gpu, precision):
    """Of a training that gets worse at its end."""
    monkeypatch.setattr(test_fit, "CPU", gpu)
    settings = {"steps": 60, "learning_rate": 0.1, "schedule": "constant", "precision": precision}
    test_fit.train(test_fit.make_task(**settings, **EVERYTHING), tmp_path, engine="cuda")
    with (tmp_path / "history.csv").open() as file:
        rows = list(csv.DictReader(file))
    best = min(rows, key=lambda row: float(row["loss"]))
    model = load_model(tmp_path / "model.safetensors")
    assert 1 < model.metadata["step"] == int(best["step"]) < 60
    assert model.metadata["engine"] == "cuda"


@pytest.mark.parametrize(
    ("field", "settings"),
    [
        (SIREN, {"supervision": "footprint", "footprint_points": 3}),
        (SIREN, {"supervision": "footprint", "footprint_points": 3} | EVERYTHING),
        (SIREN, {"batch_pixels": 0}),
        (GRIDS, {"supervision": "footprint", "footprint_points": 3}),
        (GRIDS, {"batch_pixels": 0}),
        (CAFE, {"supervision": "footprint", "footprint_points": 3} | EVERYTHING),
        (CAFE, {"batch_pixels": 0}),
        (CAFE, {"batch_pixels": 0, "precision": "float32"}),
    ],
)
def test_two_runs_and_a_resumed_one_give_the_same_bytes(
    tmp_path, monkeypatch, gpu, field, settings
):
    monkeypatch.setattr(test_fit, "CPU", gpu)
    task = test_fit.make_task(field, steps=200, **settings)
    for name in ("a", "b", "resumed"):
        test_fit.train(task, tmp_path / name, checkpoint_interval_s=0, engine="cuda")
    newest = sorted((tmp_path / "resumed/state").glob("state_*"))[-1]
    newest.unlink()
    said = test_fit.train(task, tmp_path / "resumed", checkpoint_interval_s=0, engine="cuda")
    assert any("going on from" in line for line in said)
    digests = {test_fit.sha256(tmp_path / n / "model.safetensors") for n in ("a", "b", "resumed")}
    assert len(digests) == 1


JOB = """
import sys
sys.path[:0] = [{scripts!r}, {tests!r}]
from pathlib import Path
import test_cuda_engine
test_cuda_engine.train_long(Path(sys.argv[1]), {settings!r})
"""


def train_long(folder, settings):
    test_fit.CPU = select_device("gpu")
    task = test_fit.make_task(steps=30_000, supervision="footprint", **settings)
    return test_fit.train(task, folder, checkpoint_interval_s=0.05, engine="cuda")


@pytest.mark.parametrize("settings", [{}, EVERYTHING], ids=["adam", "muon, clipped, best"])
def test_killed_at_any_moment_and_still_the_same_bytes(tmp_path, monkeypatch, gpu, settings):
    monkeypatch.setattr(test_fit, "CPU", gpu)
    train_long(tmp_path / "alone", settings)
    tests = Path(__file__).parent
    scripts = str(tests.parents[1] / "scripts")
    code = JOB.format(scripts=scripts, tests=str(tests), settings=settings)
    for moment in np.random.default_rng().uniform(2, 4, size=4):
        job = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "hit")])
        time.sleep(moment)
        os.kill(job.pid, signal.SIGKILL)
        job.wait()
    train_long(tmp_path / "hit", settings)
    digests = {test_fit.sha256(tmp_path / name / "model.safetensors") for name in ("alone", "hit")}
    assert len(digests) == 1
