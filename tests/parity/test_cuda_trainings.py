"""The cuda engine: whole trainings compared with the tape's, allocations, and resuming."""

import csv
import os
import signal
import time
from typing import Any

import numpy as np
import pytest
import test_fit
from allocations import report_of_steps_without_allocations
from make_objective import SIREN, make_objective
from processes import start_python
from test_cuda_engine import CAFE, CPU, GRIDS, PASSES_AND_PRECISIONS, WIRE, make_cuda_engine

from neuralfield.engines import make_engine
from neuralfield.engines.cuda.field_engine import CudaEngine
from neuralfield.engines.tape import TapeEngine
from neuralfield.images.metrics import psnr_db
from neuralfield.rendering.render import render
from neuralfield.system.device import gpu_is_present, select_device, to_host
from neuralfield.system.errors import ResourceError
from neuralfield.tasks.image.image_model import Model

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not gpu_is_present(), reason="no NVIDIA driver answers, or no CuPy"),
]

MUON: dict[str, Any] = {"optimizer": "muon"}
CLIPPED: dict[str, Any] = {"gradient_clip_norm": 0.05}
EVERYTHING: dict[str, Any] = {"optimizer": "muon", "gradient_clip_norm": 0.05, "keep_best": True}


@pytest.fixture(scope="module")
def gpu():
    return select_device("gpu")


@pytest.mark.parametrize(("pass_type", "precision"), PASSES_AND_PRECISIONS)
@pytest.mark.parametrize("points", [1, 4])
@pytest.mark.parametrize("field", [SIREN, CAFE, WIRE], ids=lambda field: field["type"])
def test_a_training_goes_where_the_tape_goes(gpu, monkeypatch, field, pass_type, precision, points):
    settings: dict[str, Any] = {
        "batch_pixels": 100,
        "detail_share": 0.5,
        "points": points,
        "channels": 3,
    }
    objective = make_objective(field, device=gpu, **settings)
    reference = TapeEngine(make_objective(field, **settings), CPU, 1)
    engine = make_cuda_engine(gpu, monkeypatch, pass_type, precision, objective)
    for first in range(0, 200, 50):  # later, rounding makes the steps differ
        engine.totals.fill(0)
        reference.totals.fill(0)
        engine.run(first, 50)
        reference.run(first, 50)
        tolerance = 0.05 if precision == "mixed" else 0.01
        np.testing.assert_allclose(to_host(engine.totals), reference.totals, rtol=tolerance)
    engine.close()


@pytest.mark.parametrize(("pass_type", "precision"), PASSES_AND_PRECISIONS)
@pytest.mark.parametrize("settings", [MUON, CLIPPED, MUON | CLIPPED], ids=str)
def test_muon_and_clipping_go_where_the_tape_in_float64_goes(
    gpu, monkeypatch, settings, pass_type, precision
):
    """Parameters are compared after one step, and the losses after 10 and 100 steps."""
    settings = {"batch_pixels": 100, "points": 3, "channels": 3} | settings
    objective = make_objective(device=gpu, **settings)
    reference = TapeEngine(make_objective(dtype="float64", **settings), CPU, 1)
    before = {name: to_host(array) for name, array in objective.network.arrays.items()}
    engine = make_cuda_engine(gpu, monkeypatch, pass_type, precision, objective)
    engine.run(0, 1)
    reference.run(0, 1)
    # Muon moves directions in which the gradient is almost zero as far as the others, and thereby
    # amplifies rounding errors
    tolerance = {"mixed": 0.1, "float32": 0.01}[precision]
    for name, array in reference.objective.network.arrays.items():
        moved = to_host(objective.network.arrays[name]) - before[name]
        expected = array - before[name]
        difference = np.linalg.norm(moved - expected)
        assert difference < tolerance * np.linalg.norm(expected), name
    for first, count in ((1, 9), (10, 90)):
        engine.totals.fill(0)
        reference.totals.fill(0)
        engine.run(first, count)
        reference.run(first, count)
        tolerance = 0.05 if precision == "mixed" else 0.01
        np.testing.assert_allclose(to_host(engine.totals), reference.totals, rtol=tolerance)
    engine.close()


@pytest.mark.parametrize(("pass_type", "precision"), PASSES_AND_PRECISIONS)
def test_muon_moves_complex_matrices_as_on_the_tape(gpu, monkeypatch, pass_type, precision):
    """The loss would differ by hundredths if Adam or no optimizer updated these matrices."""
    field = {**WIRE, "width": 24, "omega_0": 10.0, "scale": 5.0}
    settings: dict[str, Any] = {"batch_pixels": 100, "points": 3, "channels": 3} | MUON
    objective = make_objective(field, device=gpu, **settings)
    reference = TapeEngine(make_objective(field, dtype="float64", **settings), CPU, 1)
    engine = make_cuda_engine(gpu, monkeypatch, pass_type, precision, objective)
    for first, count in ((0, 10), (10, 90)):
        engine.totals.fill(0)
        reference.totals.fill(0)
        engine.run(first, count)
        reference.run(first, count)
        np.testing.assert_allclose(to_host(engine.totals), reference.totals, rtol=0.005)
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
        (WIRE, {"batch_pixels": 100, "points": 3} | MUON | CLIPPED),
    ],
)
@pytest.mark.parametrize("precision", ["mixed", "float32"])
def test_how_steps_are_cut_into_calls_changes_nothing(gpu, field, settings, precision):
    whole, pieces = (
        CudaEngine(make_objective(field, device=gpu, **settings), gpu, precision) for _ in range(2)
    )
    whole.run(0, 100)
    first = 0
    for count in (1, 15, 16, 17, 2, 49):
        pieces.run(first, count)
        first += count
    np.testing.assert_array_equal(to_host(whole.totals), to_host(pieces.totals))
    for name, array in whole.objective.network.arrays.items():
        np.testing.assert_array_equal(
            to_host(array), to_host(pieces.objective.network.arrays[name])
        )


def test_two_engines_at_once_do_not_meet(gpu):
    """One engine has other settings, and two have the same, so that they share compiled kernels."""
    everyone: list[dict[str, Any]] = [
        {"batch_pixels": 100, "points": 3},
        {"batch_pixels": 100, "points": 3},
        {"channels": 3, "optimizer": "sgd", "momentum": 0.9},
    ]
    alone = []
    for settings in everyone:
        engine = CudaEngine(make_objective(device=gpu, **settings), gpu, "auto")
        engine.run(0, 60)
        alone.append(to_host(engine.totals))
        engine.close()
    together = [
        CudaEngine(make_objective(device=gpu, **settings), gpu, "auto") for settings in everyone
    ]
    for first in range(0, 60, 20):
        for engine in together:
            engine.run(first, 20)
    for engine, totals in zip(together, alone, strict=True):
        np.testing.assert_array_equal(to_host(engine.totals), totals)
        engine.close()


@pytest.mark.parametrize("settings", [{}, MUON | CLIPPED], ids=["adam", "muon, clipped"])
def test_steps_allocate_nothing(gpu, settings):
    objective = make_objective(device=gpu, batch_pixels=100, points=4, **settings)
    engine = CudaEngine(objective, gpu, "auto")
    report = report_of_steps_without_allocations(engine, gpu)
    assert set(report) == {"parameters", "optimizer", "picture", "density", "batch", "pass"}
    assert report["optimizer"] >= 2 * report["parameters"] > 0
    assert settings or report["optimizer"] == 2 * report["parameters"]
    engine.close()


def test_a_profile_is_taken_stage_by_stage_with_the_same_result(gpu, monkeypatch):
    settings: dict[str, Any] = {"batch_pixels": 100, "points": 4}
    engine = CudaEngine(make_objective(device=gpu, **settings), gpu, "auto")
    engine.run(0, 20)
    monkeypatch.setenv("NEURALFIELD_PROFILE", "1")
    profiled = CudaEngine(make_objective(device=gpu, **settings), gpu, "auto")
    profiled.run(0, 20)
    np.testing.assert_array_equal(to_host(profiled.totals), to_host(engine.totals))


def test_too_little_memory_is_refused_with_what_to_do(gpu, monkeypatch):
    monkeypatch.setattr("neuralfield.system.device.available_memory_bytes", lambda device: 1000)
    objective = make_objective(device=gpu)
    with pytest.raises(ResourceError, match=r"needs about .* use smaller batches"):
        make_engine("cuda", "auto", objective, gpu, 1, print)


@pytest.mark.parametrize("supervision", ["point", "footprint"])
def test_a_training_learns_and_says_how(tmp_path, monkeypatch, gpu, supervision):
    monkeypatch.setattr(test_fit, "CPU", gpu)
    task = test_fit.make_task(steps=600, batch_pixels=0, supervision=supervision)
    test_fit.train(task, tmp_path, engine="cuda")
    model = Model.load(tmp_path / "model.safetensors")
    assert (model.metadata["engine"], model.metadata["precision"]) == ("cuda", "mixed")
    rendered = render(model, 20, 16, device=CPU)
    assert psnr_db(rendered, task.values) > 27
    np.testing.assert_allclose(render(model, 20, 16, device=gpu), rendered, atol=1e-2)


@pytest.mark.parametrize("precision", ["mixed", "float32"])
def test_the_best_network_is_kept(tmp_path, monkeypatch, gpu, precision):
    """The loss of this training jumps, and so its last network is not its best."""
    monkeypatch.setattr(test_fit, "CPU", gpu)
    settings = {"steps": 60, "learning_rate": 0.1, "schedule": "constant", "precision": precision}
    test_fit.train(test_fit.make_task(**settings, **EVERYTHING), tmp_path, engine="cuda")
    with (tmp_path / "history.csv").open() as file:
        rows = list(csv.DictReader(file))
    best = min(rows, key=lambda row: float(row["loss"]))
    model = Model.load(tmp_path / "model.safetensors")
    # a row has the loss before its step, so the network after step 60 has none and is never kept
    assert 1 < model.metadata["step"] == int(best["step"]) - 1 < 60
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
        (WIRE, {"supervision": "footprint", "footprint_points": 3} | EVERYTHING),
        (WIRE, {"batch_pixels": 0}),
    ],
)
def test_two_runs_and_a_resumed_one_give_the_same_bytes(
    tmp_path, monkeypatch, gpu, field, settings
):
    monkeypatch.setattr(test_fit, "CPU", gpu)
    task = test_fit.make_task(field, steps=200, **settings)
    for name in ("a", "b", "resumed"):
        test_fit.train(task, tmp_path / name, checkpoint_interval_s=0, engine="cuda")
    newest = sorted((tmp_path / "resumed/.state").glob("state_*"))[-1]
    newest.unlink()
    messages = test_fit.train(task, tmp_path / "resumed", checkpoint_interval_s=0, engine="cuda")
    assert any("resuming from" in line for line in messages)
    digests = {test_fit.sha256(tmp_path / n / "model.safetensors") for n in ("a", "b", "resumed")}
    assert len(digests) == 1


JOB = """
import sys
from pathlib import Path
import test_cuda_trainings
test_cuda_trainings.train_long(Path(sys.argv[1]), {settings!r})
"""


def train_long(folder, settings):
    test_fit.CPU = select_device("gpu")
    task = test_fit.make_task(steps=30_000, supervision="footprint", **settings)
    return test_fit.train(task, folder, checkpoint_interval_s=0.05, engine="cuda")


@pytest.mark.parametrize("settings", [{}, EVERYTHING], ids=["adam", "muon, clipped, best"])
def test_killed_at_any_moment_and_still_the_same_bytes(tmp_path, monkeypatch, gpu, settings):
    monkeypatch.setattr(test_fit, "CPU", gpu)
    train_long(tmp_path / "alone", settings)
    code = JOB.format(settings=settings)
    for moment in np.random.default_rng().uniform(2, 4, size=4):
        job = start_python(code, tmp_path / "hit", stdout=None)
        time.sleep(moment)
        os.kill(job.pid, signal.SIGKILL)
        job.wait()
    train_long(tmp_path / "hit", settings)
    digests = {test_fit.sha256(tmp_path / name / "model.safetensors") for name in ("alone", "hit")}
    assert len(digests) == 1
