"""The section `classifiers` of the config: what is filled in, and what is refused."""

import pytest
from complaints import changed, complaints, read

from neuralfield.tasks.classifier.convolutional_network import ConvolutionalClassifier
from neuralfield.tasks.classifier.labelled import HELD_OUT, TRAINING
from neuralfield.tasks.training_settings import HOW_AND_WHERE, ClassifierTraining


@pytest.fixture
def settings(written, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "some").mkdir()
    for name in (*TRAINING, *HELD_OUT):
        (tmp_path / "mine" / f"{name}.gz").write_bytes(b"x")
    written["classifiers"] = {"mine": {"path": "mine"}}
    return written


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        ("path", "no", "classifiers.mine.path: no: no such folder; expected the path of a folder"),
        ("path", "some", "some has no file train-images-idx3-ubyte; expected train-images-idx3"),
        ("network.padding", 5, "mine.network.padding: 5; expected less than kernel, which is 5"),
        ("training.loss", "mse", "classifiers.mine.training.loss: unknown key"),
        ("training.warmup_steps", 2001, "training.warmup_steps: 2001; expected at most steps"),
        ("checksums", {"train-images-idx3-ubyte": "00"}, "expected a SHA-256, 64 hexadecimal"),
        (
            "checksums",
            {"train-images-idx3-ubyte": "00" * 32},
            "no such file; expected one of the files there: train-images-idx3-ubyte.gz, train-l",
        ),
    ],
)
def test_complaint(settings, path, value, complaint):
    assert read(settings)["classifiers"]["mine"]["network"]["channels"] == [10, 20]
    changed(settings, f"classifiers.mine.{path}", value)
    assert complaint in "\n".join(complaints(settings))


def test_keys_and_defaults_are_those_of_the_package(settings):
    found = read(settings)["classifiers"]["mine"]
    assert ConvolutionalClassifier.from_mapping(found["network"]) == ConvolutionalClassifier()
    training = {k: v for k, v in found["training"].items() if k not in HOW_AND_WHERE}
    assert ClassifierTraining.from_mapping(training) == ClassifierTraining()
    unused = {"loss", "huber_delta", "gradient_clip_norm", "keep_best", "epsilon"}
    assert set(training) | unused == set(vars(ClassifierTraining()))
