"""Several networks in concurrent streams: each gets the same bytes as when it trains alone."""

from typing import Any

import numpy as np
import pytest
import test_batch
import test_fit
from make_objective import SIREN, make_objective
from test_divergence import content

from neuralfield.engines import EngineBatch
from neuralfield.engines.cuda.field_engine import CudaEngine
from neuralfield.nn.schedules import Schedule
from neuralfield.system.device import gpu_is_present, select_device, to_host
from neuralfield.system.errors import DivergenceError
from neuralfield.system.interruption import Interrupted
from neuralfield.training.trainer import Trainer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not gpu_is_present(), reason="no NVIDIA driver answers, or no CuPy"),
]

NETWORKS: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    (SIREN, {"seed": 3, "schedule": Schedule("cosine", 1e-3, 1e-5, 100)}),
    (SIREN, {"seed": 2**40 + 5, "schedule": Schedule("cosine", 3e-3, 0.0, 100, 7, 4)}),
    ({**SIREN, "width": 128}, {"seed": 8, "schedule": Schedule("constant", 1e-2, 0.0, 100)}),
    (SIREN, {"seed": 3, "optimizer": "sgd", "momentum": 0.9}),
    (SIREN, {"seed": 4, "points": 4, "batch_pixels": 100, "detail_share": 0.5, "channels": 3}),
    ({"type": "fourier", "frequencies": 20, "width": 48}, {"width": 150, "height": 100}),
)
"""More networks than there are streams, of different shapes and settings."""


@pytest.fixture(scope="module")
def gpu():
    return select_device("gpu")


def make_engines(gpu):
    objectives = [make_objective(field, device=gpu, **settings) for field, settings in NETWORKS]
    return [CudaEngine(objective, gpu, "auto") for objective in objectives]


def content_of(engine):
    objective = engine.objective
    arrays = {name: to_host(array) for name, array in objective.network.arrays.items()}
    arrays |= {name: to_host(array) for name, array in objective.optimizer.state.items()}
    return arrays | {"totals": to_host(engine.totals)}


def test_networks_of_a_batch_have_the_bytes_that_they_have_alone(gpu):
    alone, together = (make_engines(gpu) for _ in range(2))
    batch = EngineBatch(gpu, 1)
    shares = {}
    for first, count in [(0, 20), (20, 3), (23, 2)]:
        for engine in alone:
            engine.run(first, count)
        calls = [(engine, first, count) for engine in together]
        batch.run(calls, lambda index, *found: shares.update({index: found}))
    assert sorted(shares) == list(range(len(NETWORKS)))
    assert len({seconds for seconds, _ in shares.values()}) == 1  # shares of one measurement
    for index, (_, totals) in shares.items():
        np.testing.assert_array_equal(totals, to_host(together[index].totals))
    for one, other in zip(alone, together, strict=True):
        expected, found = content_of(one), content_of(other)
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array, err_msg=name)
    assert len({tuple(to_host(engine.totals)) for engine in alone}) == len(NETWORKS)
    batch.close()
    for engine in (*alone, *together):
        engine.close()


@pytest.fixture
def on_gpu(monkeypatch, gpu):
    """Run the trainings of `test_batch` and `test_fit` on a GPU."""
    for module in (test_batch, test_fit):
        monkeypatch.setattr(module, "CPU", gpu)


def train_alone(tasks, folder):
    for name, task in tasks.items():
        test_fit.train(task, folder / name, engine="cuda")
    return test_batch.contents(folder, tasks)


def test_trainings_are_interrupted_and_catch_up(tmp_path, on_gpu):
    tasks = test_batch.different_tasks()
    alone = train_alone(tasks, tmp_path / "alone")
    together = {"engine": "cuda", "side_by_side": 1}
    for names, row in ((("plain", "seed"), 20), (("rate", "image"), 60)):
        with pytest.raises(Interrupted):
            test_batch.train_together(
                tasks, tmp_path, names, progress=test_batch.stop_after(row), **together
            )
    test_batch.train_together(tasks, tmp_path, **together)
    assert test_batch.contents(tmp_path, tasks) == alone


def test_one_that_diverges_goes_back_by_itself(tmp_path, on_gpu, monkeypatch):
    """Mixed precision limits gradients, so trainings hardly ever diverge; this one is forced to."""
    tasks = test_batch.different_tasks()
    count_steps = Trainer.count_steps

    def diverge_once(trainer, count, seconds, totals):
        is_reported = trainer.task is tasks["rate"] and not trainer.rollback
        if is_reported and trainer.steps_taken + count >= 25:
            totals = totals + np.inf
        return count_steps(trainer, count, seconds, totals)

    monkeypatch.setattr(Trainer, "count_steps", diverge_once)
    alone = train_alone(tasks, tmp_path / "alone")
    messages = test_batch.train_together(tasks, tmp_path / "batch", engine="cuda", side_by_side=1)
    assert [len(lines) for lines in messages.values()] == [0, 0, 1, 0, 0]
    assert "returning to step" in messages["rate"][0]
    assert test_batch.contents(tmp_path / "batch", tasks) == alone


def test_one_that_fails_is_named_after_the_others_are_trained(tmp_path, on_gpu):
    tasks = {"calm": test_fit.make_task(), "wild": test_fit.make_task(learning_rate=1e30)}
    with pytest.raises(DivergenceError, match="wild: training, step "):
        test_batch.train_together(tasks, tmp_path, engine="cuda", side_by_side=1)
    test_batch.train_together(tasks, tmp_path, ["calm"], engine="cuda", side_by_side=1)
    test_fit.train(tasks["calm"], tmp_path / "alone", engine="cuda")
    assert content(tmp_path / "calm") == content(tmp_path / "alone")
