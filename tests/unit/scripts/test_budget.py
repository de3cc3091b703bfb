"""A training with a budget takes the number of steps recorded for it, and ends in an image."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import encode
import resize
from entry.image_network import read_own
from entry.training import train_task
from neuralfield.system.device import select_device
from neuralfield.system.errors import NeuralfieldError
from neuralfield.system.interruption import Interrupted
from neuralfield.tasks.image_fit import read_task
from neuralfield.training import budget
from neuralfield.training.loop import Training

FIELD = {"type": "siren", "width": 6, "hidden_layers": 1, "output": "auto"}
TRAINING = {
    **{"steps": 8, "snapshots": 3, "batch_pixels": 50, "supervision": "point", "device": "cpu"},
    **{"loss": "mse", "engine": "auto"},
}
HOW = {"checkpoint_interval_s": 30, "time_margin_s": 0}
BUDGET = TRAINING | {"budget": 0.5}


@pytest.fixture(scope="module")
def image(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("image")
    noise = np.random.default_rng(0).integers(0, 256, (16, 24, 3), dtype=np.uint8)
    Image.fromarray(noise).save(folder / "one.png")
    names = ("one.png", "resized.png", "picture.json")
    resize.main(*(folder / name for name in names), size=12)
    encode.main(*(folder / name for name in (*names[1:], "pixels.csv")))
    return folder


@pytest.fixture
def measured(monkeypatch) -> list[int]:
    """Return the batches that are timed; each of their steps takes a simulated millisecond."""
    batches = []

    def time_of_step_s(task, budget, device, engine, threads, batch_pixels):
        batches.append(batch_pixels)
        return 1e-3

    monkeypatch.setattr(budget, "time_of_step_s", time_of_step_s)
    return batches


def train(image: Path, folder: Path, training=BUDGET, **others) -> Path:
    """Train as `train.py` does, and return the path of the network."""

    def make_task():
        return read_task(image / "pixels.csv", image / "picture.json", FIELD, training)

    model = folder / "model.safetensors"
    train_task(make_task, model, training | HOW | others, threads=1)
    return model


def written(folder: Path) -> dict:
    return json.loads((folder / "budget.json").read_text())


def test_an_interrupted_training_goes_on_with_the_same_steps(image, tmp_path, measured, capsys):
    """Explicit settings also give the same bytes of the network."""
    with pytest.raises(Interrupted, match="time limit: "):
        train(image, tmp_path / "cut", time_limit_s=0.01)
    found = written(tmp_path / "cut")
    assert found["training"] == {"steps": 460, "batch_pixels": 50}
    assert "/ cut: about 1 s: 460 steps of 50 pixels" in capsys.readouterr().err
    model = train(image, tmp_path / "cut")
    assert "460 steps of 50 pixels, read from " in capsys.readouterr().err
    assert len(measured) == 1
    explicit = train(image, tmp_path / "explicit", TRAINING | found["training"])
    assert model.read_bytes() == explicit.read_bytes()
    record = json.loads((tmp_path / "cut/training.json").read_text())
    assert (record["steps"], record["batch_pixels"]) == (460, 50)
    assert record["found_for_budget"] == found["training"]


def test_steps_are_measured_anew_for_another_training(image, tmp_path, measured):
    train(image, tmp_path)
    last = BUDGET | {"batch_pixels": 40}
    for number, other in enumerate((BUDGET | {"budget": 0.4}, BUDGET | {"random_seed": 1}, last)):
        train(image, tmp_path, other)
        assert len(measured) == 2 + number
    # steps in the settings have no effect, and settings of the execution do not count
    train(image, tmp_path, last | {"steps": 9}, checkpoint_interval_s=5)
    assert len(measured) == 4
    whole = written(tmp_path)
    damaged = ({"training": {"steps": -3}}, {"training": {"width": 9}}, {"step_s": None}, {"a": 1})
    for number, damage in enumerate(damaged):
        (tmp_path / "budget.json").write_text(json.dumps(whole | damage))
        train(image, tmp_path, last)
        assert len(measured) == 5 + number


def test_a_copied_file_decides_and_a_limit_may_not_matter(image, tmp_path, measured):
    train(image, tmp_path / "here", BUDGET | {"cpu_budget": 9})
    other = written(tmp_path / "here") | {"device": "another", "step_s": 0.5, "threads": 64}
    (tmp_path / "there").mkdir()
    (tmp_path / "there/budget.json").write_text(json.dumps(other))
    copied = train(image, tmp_path / "there", BUDGET | {"cpu_budget": 9})
    assert copied.read_bytes() == (tmp_path / "here/model.safetensors").read_bytes()
    limited = train(image, tmp_path / "limited", TRAINING | {"cpu_budget": 9})
    assert limited.read_bytes() == train(image, tmp_path / "free", TRAINING).read_bytes()
    assert len(measured) == 2


def test_a_real_clock_is_kept_to_within_reason(image, tmp_path):
    train(image, tmp_path)
    record = json.loads((tmp_path / "training.json").read_text())
    assert record["steps"] >= 32 and record["train_seconds"] < 60
    assert written(tmp_path)["training"]["steps"] == record["steps"]


def test_readers_take_the_steps_of_the_network(image, tmp_path, measured):
    model = train(image, tmp_path)
    facts = image / "picture.json"
    read_own(model, facts, FIELD, BUDGET)
    (tmp_path / "budget.json").unlink()
    read_own(model, facts, FIELD, BUDGET)
    for others, found in (
        (BUDGET | {"random_seed": 3}, "random_seed 0, not 3"),
        (BUDGET | {"snapshots": 4}, "snapshots 3, not 4"),
        (TRAINING, "steps 460, not 8"),
    ):
        with pytest.raises(NeuralfieldError, match=found):
            read_own(model, facts, FIELD, others)
    with pytest.raises(NeuralfieldError, match="the network of step 0"):
        read_own(tmp_path / "checkpoints/step_00000000.safetensors", facts, FIELD, BUDGET)


def test_tiles_share_their_steps_whatever_is_on_them(image, tmp_path, measured):
    values = np.random.default_rng(1).random((9, 12, 3), np.float32)
    device = select_device("cpu")
    first = read_task(image / "pixels.csv", image / "picture.json", FIELD, BUDGET)
    for task in (first, replace(first, values=values), replace(first, values=values[:6])):
        for folder in (tmp_path / "tiles/a", tmp_path / "tiles/b"):
            run = Training(task=task, folder=folder, device=device)
            budget.apply_budget(run, BUDGET, tmp_path)
            assert run.last_step == 460
            assert "460 steps" in run.notes[0]
    assert len(measured) == 1 and written(tmp_path)["training"]["steps"] == 460


def test_smaller_batches_have_fewer_points(image, tmp_path, measured):
    """Readers expect the network as it was trained, and explicit settings make the same network."""
    training = BUDGET | {"supervision": "footprint", "footprint_points": 64, "batch_pixels": 90}
    model = train(image, tmp_path / "a", training)
    found = written(tmp_path / "a")["training"]
    assert found == {"steps": 460, "batch_pixels": 64, "footprint_points": 16}
    read_own(model, image / "picture.json", FIELD, training)
    explicit = {key: value for key, value in training.items() if key != "budget"} | found
    assert train(image, tmp_path / "b", explicit).read_bytes() == model.read_bytes()
    with pytest.raises(NeuralfieldError, match="footprint_points 16, not 8"):
        others = training | {"footprint_points": 8}
        read_own(model, image / "picture.json", FIELD, others)
