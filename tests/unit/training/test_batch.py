"""Several trainings in one job: each ends with the same bytes as alone, whatever happens."""

import json
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pytest
import test_divergence
from test_divergence import content, diverging_task, kill_until_done
from test_fit import CPU, image, make_task, train

from neuralfield.engines.tape import TapeEngine
from neuralfield.system.device import available_cores
from neuralfield.system.errors import DivergenceError, ResourceError
from neuralfield.system.heat import HeatGuard
from neuralfield.system.interruption import Interrupted
from neuralfield.training.fit import fit
from neuralfield.training.loop import Training

pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")

SIDE_BY_SIDE = min(2, available_cores())


def different_tasks(**training):
    """Return tasks with different images, seeds and rates, but the same number of steps."""
    plain = make_task(**training)
    return {
        "plain": plain,
        "seed": make_task(random_seed=7, **training),
        "rate": make_task(**{"learning_rate": 1e-2, "warmup_steps": 5} | training),
        "image": replace(plain, values=1 - image()),
        "wide": replace(plain, values=image(width=24)),
    }


def train_together(tasks, folder, names=None, side_by_side=SIDE_BY_SIDE, **run_settings):
    """Train to the end, and return the reported lines by name."""
    messages = {name: [] for name in names or tasks}
    trainings = []
    for name, lines in messages.items():
        how = {"device": CPU, "name": name, "say": lines.append} | run_settings
        trainings.append(Training(task=tasks[name], folder=folder / name, **how))
    fit(trainings, side_by_side)
    return messages


def contents(folder, names):
    return {name: content(folder / name) for name in names}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Return the contents of the same tasks, each trained alone on the tape."""
    folder = tmp_path_factory.mktemp("alone")
    for name, task in different_tasks().items():
        train(task, folder / name, engine="tape")
    return contents(folder, different_tasks())


def test_each_ends_with_the_bytes_that_it_has_alone(tmp_path, alone):
    tasks = different_tasks()
    train_together(tasks, tmp_path, engine="tape")
    assert contents(tmp_path, tasks) == alone
    assert len(set(map(str, alone.values()))) == len(tasks)


@pytest.mark.parametrize("side_by_side", sorted({1, SIDE_BY_SIDE}))
def test_so_it_does_in_compiled_kernels_with_footprints(tmp_path, side_by_side):
    tasks = different_tasks(supervision="footprint", detail_share=0.5, keep_best=True)
    for name, task in tasks.items():
        train(task, tmp_path / "alone" / name)
    train_together(tasks, tmp_path / "batch", side_by_side=side_by_side)
    assert contents(tmp_path / "batch", tasks) == contents(tmp_path / "alone", tasks)
    record = json.loads((tmp_path / "batch/seed/training.json").read_text())
    assert (record["engine"], record["threads"], record["random_seed"]) == ("cpu", 1, 7)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_killed_at_any_moment_all_end_with_the_same_bytes(tmp_path, alone, monkeypatch, seed):
    tasks = different_tasks()
    attempt = partial(train_together, tasks, tmp_path, engine="tape", side_by_side=1)
    kill_until_done(attempt, seed, monkeypatch, times=8)
    train_together(tasks, tmp_path, engine="tape")
    assert contents(tmp_path, tasks) == alone


def stop_after(row):
    """Return a progress callback that sends SIGTERM after a number of rows."""
    rows = iter(range(1, 1000))

    def progress(_):
        if next(rows) == row:
            signal.raise_signal(signal.SIGTERM)

    return progress


def test_a_signal_saves_all_and_the_next_attempt_goes_on(tmp_path, alone):
    tasks = different_tasks()
    with pytest.raises(Interrupted, match=r"SIGTERM: saved after step 13; run the same command"):
        train_together(tasks, tmp_path, engine="tape", progress=stop_after(12 * 5 + 2))
    messages = train_together(tasks, tmp_path, engine="tape")
    assert messages == {name: ["resuming from the state saved after step 13"] for name in tasks}
    assert contents(tmp_path, tasks) == alone


def test_networks_go_on_alone_or_with_others_and_those_behind_end_too(tmp_path, alone):
    tasks = different_tasks()
    for names, row in ((("plain", "seed"), 20), (("rate", "image"), 60)):
        with pytest.raises(Interrupted):
            train_together(tasks, tmp_path, names, engine="tape", progress=stop_after(row))
    train(tasks["seed"], tmp_path / "seed", engine="tape", checkpoint_interval_s=0)
    messages = train_together(tasks, tmp_path, engine="tape")
    steps = {name: lines[-1].split()[-1] for name, lines in messages.items() if lines}
    assert steps == {"plain": "10", "rate": "30", "image": "30"}
    assert contents(tmp_path, tasks) == alone


def test_a_gpu_that_is_too_hot_pauses_all_with_their_states_saved(tmp_path, alone):
    tasks, saved = different_tasks(), []

    class Guard(HeatGuard):
        looks = iter(range(1000))

        def __init__(self):
            """Skip the sensor."""

        def is_too_hot(self):
            return next(self.looks) == 10

        def wait_until_cool(self, stop):
            saved.extend(path.parts[-3] for path in tmp_path.glob("*/.state/state_*"))

    train_together(tasks, tmp_path, engine="tape", heat=Guard())
    assert sorted(saved) == sorted(tasks)
    assert contents(tmp_path, tasks) == alone


def test_one_that_diverges_goes_back_by_itself(tmp_path):
    tasks = {"calm": diverging_task(learning_rate=0.5), "wild": diverging_task()}
    tasks["other"] = diverging_task(learning_rate=0.5, random_seed=3)
    for name, task in tasks.items():
        test_divergence.train(task, tmp_path / "alone" / name)
    messages = train_together(tasks, tmp_path / "batch", engine="tape")
    assert [len(lines) for lines in messages.values()] == [0, 1, 0]
    assert "returning to step" in messages["wild"][0]
    assert contents(tmp_path / "batch", tasks) == contents(tmp_path / "alone", tasks)


def test_one_that_fails_is_named_after_the_others_are_trained(tmp_path, monkeypatch):
    tasks = {"calm": diverging_task(learning_rate=0.5)}
    tasks["wild"] = diverging_task(learning_rate=1e30, warmup_steps=0)
    for attempt in ("first", "the same command again"):
        with pytest.raises(DivergenceError) as caught:
            train_together(tasks, tmp_path, engine="tape", checkpoint_interval_s=0)
        assert str(caught.value).startswith("wild: training, step "), attempt
        assert "the other networks are trained and saved" in str(caught.value)
        assert [path.parent.name for path in tmp_path.glob("*/model.safetensors")] == ["calm"]
    monkeypatch.setattr(TapeEngine, "run", None)  # fails if any step is taken again
    train_together(tasks, tmp_path, ["calm"], engine="tape")
    monkeypatch.undo()
    test_divergence.train(tasks["calm"], tmp_path / "alone")
    assert content(tmp_path / "calm") == content(tmp_path / "alone")


def test_two_batches_with_the_same_networks_in_another_order_both_end(tmp_path, alone):
    tasks = different_tasks()
    orders = (list(tasks), list(reversed(tasks)))
    with ThreadPoolExecutor(2) as pool:
        attempts = [
            pool.submit(train_together, tasks, tmp_path, order, 1, engine="tape")
            for order in orders
        ]
        for attempt in attempts:
            attempt.result()
    assert contents(tmp_path, tasks) == alone


def test_more_cores_or_memory_than_there_are_is_refused(tmp_path, monkeypatch):
    with pytest.raises(ResourceError, match=r"training\.threads: 4096"):
        train_together(different_tasks(), tmp_path, side_by_side=4096)
    enough_for_one = 3_000_000
    monkeypatch.setattr(
        "neuralfield.system.device.available_memory_bytes", lambda device: enough_for_one
    )
    with pytest.raises(ResourceError, match="fewer networks into a batch"):
        train_together(dict.fromkeys(map(str, range(200)), make_task()), tmp_path)
