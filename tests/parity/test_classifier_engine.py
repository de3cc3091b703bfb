"""The cuda engine for classifiers against the tape: gradients, whole trainings, after a kill."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import small_classifiers
from allocations import report_of_steps_without_allocations
from paths import IMPORT_PATHS
from small_classifiers import SHIPPED, SMALL, bars, make_task, train
from test_fit import sha256

from neuralfield.system.device import gpu_is_present, select_device, to_host
from neuralfield.tasks.classifier.classifier_task import ClassifierTask
from neuralfield.tasks.classifier.convolutional_network import ConvolutionalClassifier
from neuralfield.tasks.classifier.labelled import (
    HELD_OUT,
    TRAINING,
    LabelledImages,
    find_files,
    read_labelled,
)
from neuralfield.tasks.training_settings import ClassifierTraining
from neuralfield.training.trainer import Trainer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not gpu_is_present(), reason="no NVIDIA driver answers, or no CuPy"),
]

CPU = select_device("cpu")
MOST_RELATIVE_ERROR = 1e-5


@pytest.fixture(scope="module")
def gpu():
    return select_device("gpu")


def noise(height, width, count, classes=4):
    images = np.random.default_rng(0).integers(0, 256, (count, height, width), dtype=np.uint8)
    return LabelledImages("labels", images, np.arange(count) % classes)


def trainer_of(labelled, network, device, engine, **training):
    settings = {"steps": 10**6, "schedule": "constant"} | training
    task = ClassifierTask(
        labelled,
        ConvolutionalClassifier(**network),
        ClassifierTraining.from_mapping(settings),
    )
    return Trainer(task, device, engine, 1, print)


def step_of(labelled, network, device, engine, batch, precision, first_step):
    """Return the gradient, as the change of a descent step with rate 1, and the totals."""
    trainer = trainer_of(
        labelled,
        network,
        device,
        engine,
        optimizer="sgd",
        learning_rate=1.0,
        batch_samples=batch,
        precision=precision,
    )
    before = {name: to_host(array).astype(float) for name, array in trainer.network.arrays.items()}
    trainer.engine.run(first_step, 1)
    after = trainer.network.arrays
    found = {name: array - to_host(after[name]) for name, array in before.items()}
    totals = to_host(trainer.engine.totals).copy()
    trainer.close()
    return found, totals


CASES = {
    "like MNIST's": ((28, 28), 40, {}),
    "like MNIST's, dropout": ((28, 28), 7, {"dropout": 0.5}),
    "like the shipped digits": ((8, 8), 9, {"kernel": 3, "padding": 1, "dropout": 0.3}),
    "a batch of one": ((12, 12), 1, {"channels": (4, 4), "padding": 2, "hidden": (70,)}),
    "a batch of everything": ((8, 8), 0, {"kernel": 3, "padding": 1}),
    "windows of 3 that leave some over": (
        (17, 13),
        5,
        {"channels": (3, 7), "kernel": 3, "padding": 2, "pool": 3, "hidden": (9, 5)},
    ),
    "no pooling": (
        (9, 11),
        6,
        {"channels": (5, 6, 3), "kernel": 3, "pool": 1, "hidden": (33,), "dropout": 0.1},
    ),
    "no hidden layer": ((10, 10), 3, {"channels": (3,), "kernel": 1, "hidden": ()}),
    "no convolution": ((8, 9), 11, {"channels": (), "hidden": (12,)}),
    "larger images": (
        (40, 50),
        3,
        {
            "channels": (9, 5),
            "kernel": 4,
            "padding": 1,
            "hidden": (20, 20, 20),
            "dropout": 0.5,
        },
    ),
    "windows of 4": (
        (30, 31),
        3,
        {"channels": (3, 5), "kernel": 2, "padding": 1, "pool": 4, "hidden": (6,)},
    ),
    "windows of 5, a kernel of 7": (
        (40, 43),
        3,
        {"channels": (3,), "kernel": 7, "padding": 3, "pool": 5, "hidden": (6,)},
    ),
    "many channels, a wide layer": (
        (10, 10),
        3,
        {"channels": (40, 70), "kernel": 3, "padding": 1, "hidden": (600,), "dropout": 0.2},
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("first_step", [0, 5])
def test_gradients_are_those_of_the_tape(gpu, case, first_step):
    """Both engines use the same images, even in a batch that spans two epochs, and the same dropout
    masks."""
    (height, width), batch, network = CASES[case]
    labelled = noise(height, width, 45)
    tape = step_of(labelled, network, CPU, "tape", batch, "float64", first_step)
    cuda = step_of(labelled, network, gpu, "cuda", batch, "auto", first_step)
    for name, expected in tape[0].items():
        error = np.linalg.norm(cuda[0][name] - expected) / np.linalg.norm(expected)
        assert error < MOST_RELATIVE_ERROR, (name, error)
    np.testing.assert_allclose(cuda[1], tape[1], rtol=1e-5)


def test_a_training_goes_where_the_tape_goes(gpu):
    settings = {"channels": (4, 6), "kernel": 3, "padding": 1, "hidden": (16,), "dropout": 0.25}
    training = {"batch_samples": 50, "learning_rate": 2e-3}
    labelled = bars(240)
    engine = trainer_of(labelled, settings, gpu, "cuda", **training).engine
    reference = trainer_of(labelled, settings, CPU, "tape", **training).engine
    for first in range(0, 200, 50):  # later, rounding makes the steps differ
        engine.totals.fill(0)
        reference.totals.fill(0)
        engine.run(first, 50)
        for step in range(first, first + 50):
            reference.run(step, 1)
        np.testing.assert_allclose(to_host(engine.totals)[0], reference.totals[0], rtol=0.01)
    engine.close()


def test_how_steps_are_cut_into_calls_changes_nothing(gpu, monkeypatch):
    whole, pieces, profiled = (
        trainer_of(bars(), SMALL, gpu, "cuda", batch_samples=24) for _ in range(3)
    )
    whole.engine.run(0, 100)
    first = 0
    for count in (1, 15, 16, 17, 2, 49):
        pieces.engine.run(first, count)
        first += count
    profiled.close()
    monkeypatch.setenv("NEURALFIELD_PROFILE", "1")  # launch kernels one by one, without a graph
    profiled = trainer_of(bars(), SMALL, gpu, "cuda", batch_samples=24)
    profiled.engine.run(0, 100)
    for other in (pieces, profiled):
        np.testing.assert_array_equal(to_host(whole.engine.totals), to_host(other.engine.totals))
        for name, array in whole.network.arrays.items():
            np.testing.assert_array_equal(to_host(array), to_host(other.network.arrays[name]))


def test_steps_allocate_nothing(gpu):
    engine = trainer_of(bars(), SMALL, gpu, "cuda", batch_samples=24).engine
    report = report_of_steps_without_allocations(engine, gpu)
    assert set(report) == {"parameters", "optimizer", "pictures", "labels", "batch", "pass"}
    assert report["optimizer"] == 2 * report["parameters"] > 0
    assert report["pictures"] == 60 * 5 * 6
    engine.close()


def test_shipped_digits_are_classified_and_the_engine_is_recorded(tmp_path, monkeypatch, gpu):
    monkeypatch.setattr(small_classifiers, "CPU", gpu)
    trained = read_labelled(*find_files(SHIPPED, TRAINING))
    task = ClassifierTask(
        trained,
        ConvolutionalClassifier(channels=(32, 64), kernel=3, padding=1, dropout=0.5),
        ClassifierTraining(steps=1_000, batch_samples=128, learning_rate=0.002),
    )
    model, _ = train(task, tmp_path)
    record = json.loads((tmp_path / "training.json").read_text())
    assert (record["engine"], record["engine_variant"]) == ("cuda", "classifier")
    assert record["precision"] == "float32" and record["memory_bytes"]["pictures"] > 0
    held_out = read_labelled(*find_files(SHIPPED, HELD_OUT))
    answers = model.probabilities(held_out.images).argmax(axis=1)
    assert (answers == held_out.labels).mean() >= 0.985


def test_two_runs_and_a_resumed_one_give_the_same_bytes(tmp_path, monkeypatch, gpu):
    monkeypatch.setattr(small_classifiers, "CPU", gpu)
    task = make_task(steps=200)
    for name in ("a", "b", "resumed"):
        train(task, tmp_path / name, checkpoint_interval_s=0)
    newest = sorted((tmp_path / "resumed/state").glob("state_*"))[-1]
    newest.unlink()
    _, messages = train(task, tmp_path / "resumed", checkpoint_interval_s=0)
    assert any("resuming from" in line for line in messages)
    digests = {sha256(tmp_path / name / "model.safetensors") for name in ("a", "b", "resumed")}
    assert len(digests) == 1


JOB = """
import sys
sys.path[:0] = {paths!r}
from pathlib import Path
import test_classifier_engine
test_classifier_engine.train_long(Path(sys.argv[1]))
"""


def train_long(folder):
    small_classifiers.CPU = select_device("gpu")
    return train(make_task(steps=30_000), folder, checkpoint_interval_s=0.05)


def test_killed_at_any_moment_and_still_the_same_bytes(tmp_path, monkeypatch, gpu):
    monkeypatch.setattr(small_classifiers, "CPU", gpu)
    train_long(tmp_path / "alone")
    code = JOB.format(paths=IMPORT_PATHS)
    for moment in np.random.default_rng().uniform(2, 4, size=3):
        job = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "hit")])
        time.sleep(moment)
        os.kill(job.pid, signal.SIGKILL)
        job.wait()
    train_long(tmp_path / "hit")
    digests = {sha256(tmp_path / name / "model.safetensors") for name in ("alone", "hit")}
    assert len(digests) == 1
