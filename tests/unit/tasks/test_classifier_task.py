"""Trainings of image classifiers: they learn, and recover as the trainings of fields do."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from idx_writer import write_idx
from small_classifiers import SMALL, bars, make_task, train
from test_fit import CPU

import evaluate_classifier
from neuralfield.system.errors import CheckpointError, ConfigError, InputError
from neuralfield.tasks.classifier.labelled import HELD_OUT, TRAINING, LabelledImages, find_files


def test_trained_classes_are_recognized_in_images_never_seen(tmp_path):
    model, _ = train(make_task(bars(240), steps=600), tmp_path)
    others = bars(150, seed=1)
    probabilities = model.probabilities(others.images)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert (probabilities.argmax(axis=1) == others.labels).mean() > 0.95
    history = pd.read_csv(tmp_path / "history.csv")
    assert list(history)[:4] == ["step", "seconds", "loss", "accuracy"]
    assert history.loss.iloc[0] == pytest.approx(np.log(3), rel=0.8)
    assert history.accuracy.iloc[0] < 0.7 < 0.9 < history.accuracy.iloc[-1] <= 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_block_at_a_time_it_is_the_gradient_of_the_whole_batch(monkeypatch, dtype):
    """The loss is also the mean over the batch, however the batch is divided."""
    from neuralfield.training.trainer import Trainer

    found = []
    for block in (5, 64):
        monkeypatch.setattr(
            "neuralfield.tasks.classifier.classifier_objective.BLOCK_IMAGES", {"cpu": block}
        )
        precision = "float64" if dtype == "float64" else "auto"
        trainer = Trainer(make_task(precision=precision), CPU, "auto", 1, print)
        trainer.engine.run(0, 1)
        found.append((trainer.engine.totals.copy(), trainer.optimizer.state))
    (totals, state), (whole_totals, whole_state) = found
    np.testing.assert_allclose(totals, whole_totals, rtol=1e-5)
    for name, moment in state.items():
        np.testing.assert_allclose(moment, whole_state[name], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"network": {"kernel": 9}}, "classifier: convolution 1: images of 7 x 8 values"),
        ({"network": {"pool": 6}}, "classifier: pooling 1"),
        ({"network": {"padding": 3}}, "padding: 3; expected less than kernel, which is 3"),
        ({"loss": "mse"}, r"training\.loss: 'mse'; expected cross_entropy"),
    ],
)
def test_complaint(changes, complaint):
    with pytest.raises(ConfigError, match=complaint):
        make_task(**changes)


def test_one_kind_alone_cannot_be_reported_apart():
    alone = LabelledImages("the-labels", bars().images, np.zeros(60, np.int64))
    with pytest.raises(
        InputError, match="the-labels: all labels are 0; expected labels of two or more"
    ):
        make_task(alone)


def test_what_is_wrong_is_counted(tmp_path):
    for names, some in ((TRAINING, bars()), (HELD_OUT, bars(45, seed=1))):
        write_idx(tmp_path / names[0], some.images)
        write_idx(tmp_path / names[1], some.labels.astype(np.uint8))
    training = {"steps": 40, "batch_samples": 24, "snapshots": 5, "learning_rate": 5e-3}
    training["random_seed"] = 0
    model, _ = train(make_task(), tmp_path)
    options = {"network": SMALL, "training": training, "checksums": {}}
    paths = [
        tmp_path / name
        for name in ("model.safetensors", "training.json", "metrics.json", "predictions.csv")
    ]
    files = *find_files(tmp_path, TRAINING), *find_files(tmp_path, HELD_OUT)
    evaluate_classifier.main(*files, *paths, **options)
    found = json.loads(paths[2].read_text())
    rows: Any = pd.read_csv(paths[3])
    assert (found["pictures"], found["held_out_pictures"], found["classes"]) == (60, 45, 3)
    for prefix, held_out in (("", 0), ("held_out_", 1)):
        own = rows[rows.held_out == held_out]
        wrong = int((own.label != own.predicted).sum())
        assert found[f"{prefix}wrong"] == wrong
        assert found[f"{prefix}accuracy"] == pytest.approx(1 - wrong / len(own))
    own = rows[rows.held_out == 1]
    for label, line in enumerate(found["confusion"]):
        shown = own[own.label == label]
        assert line == [int((shown.predicted == other).sum()) for other in range(3)]
        kind = found["per_class"][label]
        assert kind["recall"] == pytest.approx((shown.predicted == label).mean())
    answers = model.probabilities(bars(45, seed=1).images)
    np.testing.assert_allclose(answers.max(axis=1), own.probability, rtol=1e-5)
    write_idx(tmp_path / TRAINING[1], (2 - bars().labels).astype(np.uint8))
    with pytest.raises(CheckpointError, match=r"another training \(.*pictures with another digest"):
        evaluate_classifier.main(*files, *paths, **options)
