"""Several networks in one launch: each gets the same bytes as when it trains alone on this GPU."""

from typing import Any

import numpy as np
import pytest
import test_batch
import test_fit
from make_objective import SIREN, make_objective
from test_divergence import content

from neuralfield.engines import EngineBatch
from neuralfield.engines.cuda import batch as cuda_batch
from neuralfield.engines.cuda.batch import CudaBatch
from neuralfield.engines.cuda.field_engine import CudaEngine
from neuralfield.engines.cuda.fused.narrow_pass import NarrowPass
from neuralfield.nn.schedules import Schedule
from neuralfield.system.device import gpu_is_present, select_device, to_host
from neuralfield.system.errors import DivergenceError
from neuralfield.system.interruption import Interrupted
from neuralfield.training.trainer import Trainer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not gpu_is_present(), reason="no NVIDIA driver answers, or no CuPy"),
]

NETWORKS = (
    {"seed": 3, "schedule": Schedule("cosine", 1e-3, 1e-5, 100)},
    {"seed": 2**40 + 5, "schedule": Schedule("cosine", 3e-3, 0.0, 100, 7, 4)},
    {"seed": 8, "schedule": Schedule("constant", 1e-2, 0.0, 100)},
    {"seed": 3, "schedule": Schedule("constant", 1e-3, 0.0, 100, 0, 30)},
)
"""Different images, initial weights, samples and learning rates."""

SIREN_64 = {"type": "siren", "width": 64, "hidden_layers": 2}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    # one tile per unit, and fewer units than partial sums
    "small": (SIREN, {"points": 1}),
    "one tile": (SIREN, {"batch_pixels": 20, "channels": 3}),
    "footprints, by density": (
        SIREN_64,
        {"points": 4, "batch_pixels": 500, "detail_share": 0.5, "channels": 3},
    ),
    # several chains per unit, several tiles per chain
    "two chains": (SIREN_64, {"width": 128, "height": 128}),
    "long chains": (SIREN_64, {"width": 300, "height": 200, "channels": 3}),
    "one matrix": ({**SIREN_64, "hidden_layers": 1}, {"width": 200, "height": 131}),
    "sgd": (SIREN, {"batch_pixels": 300, "optimizer": "sgd", "momentum": 0.9}),
    "fourier": (
        {"type": "fourier", "frequencies": 20, "hidden_layers": 2, "width": 48, "scale": 2.0},
        {"width": 150, "height": 100, "channels": 4, "points": 3, "batch_pixels": 0},
    ),
    "relu of unequal layers, huber": (
        {"type": "mlp", "activation": "relu", "widths": [33, 17, 64]},
        {"width": 140, "height": 140, "loss": "huber"},
    ),
}
OF_FEW_POINTS = ("small", "one tile", "sgd")


@pytest.fixture(scope="module")
def gpu():
    device = select_device("gpu")
    if int(device.xp.cuda.Device().compute_capability) != 90:
        pytest.skip("the pass hopper-narrow is for compute capability 9.0")
    return device


@pytest.fixture
def always_together(monkeypatch):
    """Take steps together even if turns are estimated to be faster, and record the calls."""
    runs = []

    class Counted(CudaBatch):
        def run(self, first_step, count):
            runs.append((len(self.engines), first_step, count))
            super().run(first_step, count)

    monkeypatch.setattr(cuda_batch, "is_faster_together", lambda tiles, networks, processors: True)
    monkeypatch.setattr(cuda_batch, "CudaBatch", Counted)
    return runs


def engines_of(gpu, field, settings):
    objectives = [make_objective(field, device=gpu, **settings, **network) for network in NETWORKS]
    return [CudaEngine(objective, gpu, "auto") for objective in objectives]


def content_of(engine):
    objective = engine.objective
    arrays = {name: to_host(array) for name, array in objective.network.arrays.items()}
    arrays |= {name: to_host(array) for name, array in objective.optimizer.state.items()}
    return arrays | {"totals": to_host(engine.totals)}


@pytest.mark.parametrize("case", CASES)
def test_networks_of_a_batch_have_the_bytes_that_they_have_alone(gpu, always_together, case):
    alone, together = (engines_of(gpu, *CASES[case]) for _ in range(2))
    assert alone[0].variant == NarrowPass.name
    batch = EngineBatch(gpu, 1)
    shares = {}
    # the last call begins at an odd step, which uses the other batch; with many points, fewer steps
    # do as well
    calls = [(0, 20), (20, 3), (23, 2)] if case in OF_FEW_POINTS else [(0, 2), (2, 3), (5, 2)]
    for first, count in calls:
        for engine in alone:
            engine.run(first, count)
        batch.run(together, first, count, lambda place, *found: shares.update({place: found}))
    assert always_together == [(4, *call) for call in calls]
    assert sorted(shares) == [0, 1, 2, 3]
    for place, (_, totals) in shares.items():
        np.testing.assert_array_equal(totals, to_host(together[place].totals))
    for one, other in zip(alone, together, strict=True):
        expected, found = content_of(one), content_of(other)
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array, err_msg=name)
    totals = {tuple(to_host(engine.totals)) for engine in alone}
    assert len(totals) == len(NETWORKS)  # no two trainings are the same
    batch.close()
    for engine in (*alone, *together):
        engine.close()


def test_those_of_other_kinds_run_side_by_side(gpu, always_together):
    wide = {**SIREN, "width": 128}
    fields = [SIREN, wide, SIREN, {**SIREN, "width": 32}, wide]
    engines = [CudaEngine(make_objective(field, device=gpu), gpu, "auto") for field in fields]
    done = []
    batch = EngineBatch(gpu, 1)
    batch.run(engines, 0, 5, lambda place, *found: done.append(place))
    assert [networks for networks, *_ in always_together] == [2, 1]
    assert sorted(done) == [0, 1, 2, 3, 4]
    alone = [CudaEngine(make_objective(field, device=gpu), gpu, "auto") for field in fields]
    for one, other in zip(alone, engines, strict=True):
        one.run(0, 5)
        np.testing.assert_array_equal(to_host(other.totals), to_host(one.totals))


@pytest.fixture
def on_gpu(monkeypatch, gpu):
    """Run the trainings of `test_batch` and `test_fit` on a GPU."""
    for module in (test_batch, test_fit):
        monkeypatch.setattr(module, "CPU", gpu)


def train_alone(tasks, folder):
    for name, task in tasks.items():
        test_fit.train(task, folder / name, engine="cuda")
    return test_batch.contents(folder, tasks)


def test_trainings_are_interrupted_and_catch_up(tmp_path, on_gpu, always_together):
    tasks = test_batch.different_tasks()
    del tasks["wide"]  # it has another batch kind
    alone = train_alone(tasks, tmp_path / "alone")
    together = {"engine": "cuda", "side_by_side": 1}
    for names, row in ((("plain", "seed"), 20), (("rate", "image"), 60)):
        with pytest.raises(Interrupted):
            test_batch.train_together(
                tasks, tmp_path, names, progress=test_batch.stop_after(row), **together
            )
    test_batch.train_together(tasks, tmp_path, **together)
    assert test_batch.contents(tmp_path, tasks) == alone
    assert {networks for networks, *_ in always_together} >= {2, 4}  # some caught up first


def test_one_that_diverges_goes_back_by_itself(tmp_path, on_gpu, always_together, monkeypatch):
    """Mixed precision limits gradients, so trainings hardly ever diverge; this one is forced to."""
    tasks = test_batch.different_tasks()
    del tasks["wide"]
    require_finite = Trainer._require_finite

    def diverge_once(trainer, loss):
        is_reported = trainer.task is tasks["rate"] and not trainer.rollback
        if is_reported and trainer.steps_taken >= 25:
            raise trainer._divergence("the loss is inf")
        require_finite(trainer, loss)

    monkeypatch.setattr(Trainer, "_require_finite", diverge_once)
    alone = train_alone(tasks, tmp_path / "alone")
    messages = test_batch.train_together(tasks, tmp_path / "batch", engine="cuda", side_by_side=1)
    assert [len(lines) for lines in messages.values()] == [0, 0, 1, 0]
    assert "returning to step" in messages["rate"][0]
    assert test_batch.contents(tmp_path / "batch", tasks) == alone
    assert {networks for networks, *_ in always_together} == {1, 4}


def test_one_that_fails_is_named_after_the_others_are_trained(tmp_path, on_gpu, always_together):
    tasks = {"calm": test_fit.make_task(), "wild": test_fit.make_task(learning_rate=1e30)}
    with pytest.raises(DivergenceError, match="wild: training, step "):
        test_batch.train_together(tasks, tmp_path, engine="cuda", side_by_side=1)
    test_batch.train_together(tasks, tmp_path, ["calm"], engine="cuda", side_by_side=1)
    test_fit.train(tasks["calm"], tmp_path / "alone", engine="cuda")
    assert content(tmp_path / "calm") == content(tmp_path / "alone")
