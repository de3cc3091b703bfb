"""A training that diverges goes back once, to the same bytes however often it is killed."""

import json
import os
import shutil
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import test_fit
from test_fit import make_task, sha256

from neuralfield.engines.tape import TapeEngine
from neuralfield.system.checkpoint import list_snapshots
from neuralfield.system.errors import DivergenceError
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.training_settings import log_spaced_steps
from neuralfield.training import loop as training_loop
from neuralfield.training import state as state_module
from neuralfield.training.loop import go_back

pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")

train = partial(test_fit.train, engine="tape")
"""Train with the engine whose steps are counted and killed below."""


def diverging_task(**training):
    """Return a task that learns at first, but diverges from about step 90 on as its rate rises."""
    field = {"type": "mlp", "widths": [32], "activation": "tanh"}
    settings = {"optimizer": "sgd", "momentum": 0.5, "schedule": "constant", "snapshots": 40}
    rates = {"learning_rate": 6.0, "steps": 200, "warmup_steps": 200}
    return make_task(field, **settings | rates | training)


def content(folder):
    """Return the results that must be equal in every attempt, which excludes the seconds."""
    history = pd.read_csv(folder / "history.csv").drop(columns="seconds")
    snapshots = {step: sha256(path) for step, path in list_snapshots(folder / "checkpoints")}
    return sha256(folder / "model.safetensors"), snapshots, history.to_csv()


@pytest.fixture(scope="module")
def left_alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    messages = train(diverging_task(), folder)
    return folder, messages


@pytest.fixture(scope="module")
def rollback(left_alone):
    """Return the record of the rollback, whose steps depend on the random seed."""
    record = json.loads((left_alone[0] / "training.json").read_text())["rollback"]
    assert 0 < record["to_step"] < record["noticed_at_step"] < 200
    assert record["to_step"] in log_spaced_steps(200, 40), "a step of a snapshot"
    return record


def test_it_goes_back_to_the_last_good_snapshot_and_on_with_a_lower_rate(left_alone, rollback):
    folder, messages = left_alone
    (message,) = messages
    assert message.startswith(f"training, step {rollback['noticed_at_step']}: the loss is inf; ")
    assert f"returning to step {rollback['to_step']} " in message
    history = pd.read_csv(folder / "history.csv")
    after = history.step > rollback["to_step"]
    assert (history.rollbacks == after).all() and 0 < after.sum() < len(history)
    assert history.step.is_monotonic_increasing and history.seconds.is_monotonic_increasing
    scheduled = 6.0 * history.step / 200
    np.testing.assert_allclose(history.learning_rate, scheduled * np.where(after, 0.1, 1))
    assert history.psnr_db.iloc[-1] > history.psnr_db[~after].max() - 1
    assert (rollback["found"], rollback["learning_rate_factor"]) == ("the loss is inf", 0.1)
    model = Model.load(folder / "model.safetensors")
    assert model.metadata["rolled_back_to_step"] == rollback["to_step"]


class Killed(BaseException):
    """The exception that simulates a kill: no code of the program runs after it."""


@contextmanager
def dying_at(moment, monkeypatch):
    """Kill the program at the `moment`-th step or operation that writes or removes a file."""
    left = moment

    def mortal(function):
        def act(*arguments, **settings):
            nonlocal left
            left -= 1
            if left == 0:
                raise Killed
            return function(*arguments, **settings)

        return act

    with monkeypatch.context() as patch:
        patch.setattr(TapeEngine, "run", mortal(TapeEngine.run))
        patch.setattr(state_module, "save_arrays", mortal(state_module.save_arrays))
        patch.setattr(Model, "write", mortal(Model.write))
        patch.setattr(os, "unlink", mortal(os.unlink))
        patch.setattr(os, "replace", mortal(os.replace))
        yield


def kill_until_done(attempt, seed, monkeypatch, times):
    """Call `attempt` at most `times` times, with random intervals between checkpoints, and kill it
    at random moments."""
    generator = np.random.default_rng(seed)
    kills = 0
    for _ in range(times):
        lives, interval_s = generator.integers(20, 250), generator.choice([0, 0.003, 1000])
        with suppress(Killed), dying_at(lives, monkeypatch):
            kills += 1
            attempt(checkpoint_interval_s=interval_s)
            kills -= 1
    assert kills


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_killed_at_any_moment_it_ends_with_the_same_bytes(tmp_path, left_alone, monkeypatch, seed):
    """The training is killed before, during and after its rollback, with some states saved."""
    task = diverging_task()
    kill_until_done(partial(train, task, tmp_path), seed, monkeypatch, times=12)
    train(task, tmp_path)
    assert content(tmp_path) == content(left_alone[0])


@pytest.mark.slow
def test_killed_at_each_moment_of_going_back(tmp_path, left_alone, rollback, monkeypatch):
    task, take_steps = diverging_task(), TapeEngine.run

    def run_until_shortly_before(self, first_step, count):
        if first_step >= rollback["noticed_at_step"] - 3:
            raise Killed
        take_steps(self, first_step, count)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(TapeEngine, "run", run_until_shortly_before)
        train(task, tmp_path / "before", checkpoint_interval_s=0)
    moment = 0
    for moment in count(1):
        folder = tmp_path / str(moment)
        shutil.copytree(tmp_path / "before", folder)

        def dying_go_back(*arguments, moment=moment):
            with dying_at(moment, monkeypatch):
                return go_back(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(training_loop, "go_back", dying_go_back)
            try:
                train(task, folder, checkpoint_interval_s=0)
                break
            except Killed:
                pass
        train(task, folder)
        assert content(folder) == content(left_alone[0]), moment
    assert moment > 4, "writing the state, giving it its name, and removing two others"


def test_where_it_goes_back_to_does_not_depend_on_when_it_is_noticed(tmp_path, monkeypatch):
    """An overflow in the optimizer is noticed when a snapshot is saved, but not by the loss."""
    take_steps = TapeEngine.run

    def overflow(self, first_step, count):
        take_steps(self, first_step, count)
        if (
            first_step == 15
            and self.objective.schedule.learning_rate == test_fit.SMALL["learning_rate"]
        ):
            next(iter(self.objective.optimizer.state.values()))[...] = np.inf

    monkeypatch.setattr(TapeEngine, "run", overflow)
    for name, interval_s in (("soon", 0), ("late", 1000)):
        # infinite moments leave the weights unchanged
        train(make_task(), tmp_path / name, checkpoint_interval_s=interval_s)
        record = json.loads((tmp_path / name / "training.json").read_text())
        assert record["rollback"]["noticed_at_step"] > 15
    assert content(tmp_path / "soon") == content(tmp_path / "late")


def test_the_second_time_it_stops_with_advice(tmp_path):
    task = diverging_task(learning_rate=1e30, warmup_steps=0)
    for attempt in ("first", "the same command again"):
        with pytest.raises(DivergenceError) as caught:
            train(task, tmp_path)
        message = str(caught.value)
        assert message.startswith("training, step "), attempt
        assert "even after returning to step 0 and continuing with 0.1 times" in message
        assert "lower training.learning_rate, now 1e+30: try 3e+28" in message
        snapshot = Path(message.rsplit(" ", 1)[1])
        assert all(np.isfinite(a).all() for a in Model.load(snapshot).arrays.values())
    assert not (tmp_path / "model.safetensors").exists()


def test_the_cpu_engine_goes_back_to_the_same_bytes(tmp_path):
    for name, interval_s in (("alone", 1000), ("often", 0)):
        folder = tmp_path / name
        test_fit.train(diverging_task(), folder, engine="cpu", checkpoint_interval_s=interval_s)
        record = json.loads((folder / "training.json").read_text())
        assert record["engine"] == "cpu"
        assert 0 < record["rollback"]["to_step"] < record["rollback"]["noticed_at_step"]
    assert content(tmp_path / "alone") == content(tmp_path / "often")


def test_a_network_that_is_not_finite_before_its_training_is_an_error(tmp_path):
    with pytest.raises(DivergenceError, match="the untrained network's values are not finite"):
        train(make_task({"type": "wire", "width": 8, "omega_0": 1000}), tmp_path)


def test_a_psnr_that_is_no_number_is_no_divergence(tmp_path):
    """The error of a footprint is estimated from two groups of points, and may be negative."""
    task = make_task(
        {"type": "siren", "width": 24, "hidden_layers": 2},
        supervision="footprint",
        footprint_points=3,
        precision="float64",
        random_seed=4,
        steps=200,
    )
    messages = train(task, tmp_path)
    history = pd.read_csv(tmp_path / "history.csv")
    assert not np.isfinite(history["psnr_db"]).all()
    assert not any("returning to step" in line for line in messages)
