"""The cuda engine for upscalers against the tape: crops, gradients, whole trainings, a kill."""

import json

import numpy as np
import pytest
import test_fit
from allocations import report_of_steps_without_allocations
from test_fit import require_same_bytes_after_a_kill, sha256
from test_upscaler import make_task, rings

from neuralfield.engines.cuda.upscaler.upscaler_engine import UpscalerCudaEngine
from neuralfield.images import ImageData, resize_image
from neuralfield.images.metrics import psnr_db
from neuralfield.rendering.render import render
from neuralfield.system.device import gpu_is_present, select_device, to_host
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.upscaler.upscaler_objective import Crops, UpscalerObjective
from neuralfield.training.trainer import Trainer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not gpu_is_present(), reason="no NVIDIA driver answers, or no CuPy"),
]

CPU = select_device("cpu")
MOST_RELATIVE_ERROR = 1e-5
RATE = 64.0
"""Learning rate that is so large that the weights' rounding hides little of the gradient."""


@pytest.fixture(scope="module")
def gpu():
    return select_device("gpu")


CASES = {
    "grey, small layers": ((30, 22, 1), {"hidden_layers": 1, "channels": 6, "crop": 12}),
    "the usual settings": (
        (48, 40, 3),
        {"hidden_layers": 4, "channels": 32, "crop": 32, "batch_pixels": 2048},
    ),
    "alpha, one crop": ((40, 33, 4), {"hidden_layers": 2, "channels": 5, "batch_pixels": 100}),
    "huber": ((30, 22, 3), {"loss": "huber", "factor": 3, "hidden_layers": 2, "channels": 9}),
    "many crops": ((64, 64, 1), {"crop": 8, "batch_pixels": 0, "hidden_layers": 3, "channels": 16}),
    "all of a photograph": (
        (192, 128, 3),
        {"hidden_layers": 4, "channels": 32, "crop": 32, "batch_pixels": 0},
    ),
    "hundreds of crops": (
        (100, 100, 1),
        {"crop": 4, "batch_pixels": 0, "hidden_layers": 1, "channels": 6},
    ),
    "smaller than a crop": ((25, 9, 1), {"crop": 64, "hidden_layers": 2, "channels": 7}),
    "wide": ((30, 30, 3), {"hidden_layers": 2, "channels": 70, "crop": 20}),
}


def trainer_of(case, device, engine, **training):
    (width, height, channels), settings = CASES[case]
    settings = settings | {"steps": 10**6} | training
    trainer = Trainer(
        make_task(rings(width, height, channels), **settings), device, engine, 1, print
    )
    random = np.random.default_rng(0)
    for name, tensor in trainer.network.parameters.items():
        if name.endswith("bias") or not to_host(tensor.data).any():  # initialized with zeros
            values = random.normal(0, 0.1, tensor.shape).astype(np.float32)
            tensor.data[...] = device.asarray(values, dtype=tensor.data.dtype)
    return trainer


def step_of(case, device, engine, first_step, **training):
    """Return the gradient, computed from the change by a descent step, and the totals."""
    descent = {"optimizer": "sgd", "learning_rate": RATE, "schedule": "constant"}
    trainer = trainer_of(case, device, engine, **descent, **training)
    before = {
        name: to_host(tensor.data).astype(float)
        for name, tensor in trainer.network.parameters.items()
    }
    trainer.engine.run(first_step, 1)
    after = trainer.network.parameters
    found = {name: (array - to_host(after[name].data)) / RATE for name, array in before.items()}
    totals = to_host(trainer.engine.totals).copy()
    trainer.close()
    return found, totals


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("first_step", [0, 5])
def test_gradients_are_those_of_the_tape(gpu, case, first_step):
    tape = step_of(case, CPU, "tape", first_step, precision="float64")
    cuda = step_of(case, gpu, "cuda", first_step)
    for name, expected in tape[0].items():
        error = np.linalg.norm(cuda[0][name] - expected) / np.linalg.norm(expected)
        assert error < MOST_RELATIVE_ERROR, (name, error)
    np.testing.assert_allclose(cuda[1], tape[1], rtol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_crops_are_those_of_the_tape_bit_by_bit(gpu, case):
    trainer = trainer_of(case, gpu, "cuda", random_seed=2**40 + 5)
    objective, engine = trainer.objective, trainer.engine
    assert isinstance(objective, UpscalerObjective) and isinstance(engine, UpscalerCudaEngine)
    sampling = engine.stages.sampling
    crops = Crops(objective.settings, objective.values, objective.random_seed, CPU, "float32")
    for step in (0, 1, 1000):
        engine.run(step, 1)
        enlarged, light = crops.of_step(np.arange(objective.batches.size), step)
        inputs, targets = (
            to_host(array).transpose(0, 2, 3, 1) for array in (sampling.inputs, sampling.targets)
        )
        np.testing.assert_array_equal(inputs, enlarged - np.float32(0.5))
        reach = crops.reach
        np.testing.assert_array_equal(targets, light - enlarged[:, reach:-reach, reach:-reach])
    trainer.close()


def test_a_training_goes_where_the_tape_goes(gpu):
    case = "the usual settings"
    engine, reference = (
        trainer_of(case, device, name).engine for device, name in ((gpu, "cuda"), (gpu, "tape"))
    )
    for first in range(0, 100, 25):  # later, rounding makes the steps differ
        for each in (engine, reference):
            each.totals.fill(0)
            each.run(first, 25)
        np.testing.assert_allclose(to_host(engine.totals), to_host(reference.totals), rtol=0.02)
    engine.close()


def test_how_steps_are_cut_into_calls_changes_nothing(gpu, monkeypatch):
    case = "grey, small layers"
    whole, pieces = (trainer_of(case, gpu, "cuda") for _ in range(2))
    whole.engine.run(0, 100)
    first = 0
    for count in (1, 15, 16, 17, 2, 49):
        pieces.engine.run(first, count)
        first += count
    monkeypatch.setenv("NEURALFIELD_PROFILE", "1")  # launch kernels one by one, without a graph
    profiled = trainer_of(case, gpu, "cuda")
    profiled.engine.run(0, 100)
    for other in (pieces, profiled):
        np.testing.assert_array_equal(to_host(whole.engine.totals), to_host(other.engine.totals))
        for name, array in whole.network.arrays.items():
            np.testing.assert_array_equal(to_host(array), to_host(other.network.arrays[name]))


def test_steps_allocate_nothing(gpu):
    engine = trainer_of("the usual settings", gpu, "cuda").engine
    report = report_of_steps_without_allocations(engine, gpu)
    assert set(report) == {"parameters", "optimizer", "picture", "batch", "pass"}
    assert report["optimizer"] == 2 * report["parameters"] > 0
    engine.close()


def test_it_enlarges_as_well_as_on_the_tape_and_the_engine_is_recorded(tmp_path, gpu):
    truth = rings(80, 60, period_px=28)
    small = ImageData.from_values(truth.reshape(30, 2, 40, 2, 1).mean(axis=(1, 3)), "grey", 16)
    test_fit.train(make_task(small.values(), steps=300), tmp_path, device=gpu)
    model = Model.load(tmp_path / "model.safetensors")
    lanczos = resize_image(small, (80, 60), "lanczos").values()
    assert psnr_db(render(model, 80, 60, device=CPU), truth) > psnr_db(lanczos, truth) + 1.5
    record = json.loads((tmp_path / "training.json").read_text())
    assert (record["engine"], record["engine_variant"]) == ("cuda", "upscaler")
    assert record["precision"] == "float32" and record["memory_bytes"]["picture"] > 0


def test_two_runs_and_a_resumed_one_give_the_same_bytes(tmp_path, monkeypatch, gpu):
    monkeypatch.setattr(test_fit, "CPU", gpu)
    require_same_bytes_after_a_kill(make_task(steps=200), tmp_path, 12)
    test_fit.train(make_task(steps=200), tmp_path / "again")
    digests = {sha256(tmp_path / name / "model.safetensors") for name in ("alone", "again")}
    assert len(digests) == 1
