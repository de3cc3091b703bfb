"""A training reports its progress and a preview while it runs, without a change of its results."""

import json
from typing import Any

import pytest
from PIL import Image
from test_fit import make_task, sha256, train

from entry import progress
from entry.progress import Preview, ProgressFile, progress_path
from snakemake_logger_plugin_neuralfield.job import Progress


def read(path):
    return Progress(**json.loads(path.read_bytes()))


@pytest.fixture
def clock(monkeypatch):
    """Replace the clock, and return a list with the time, which the test sets."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_progress_is_written_twice_a_second_and_at_the_end(tmp_path, clock):
    path = progress_path(tmp_path / "train.log")
    file = ProgressFile(path, steps=200)
    file.update(10, 3.0)
    assert read(path) == Progress(10, 200, seconds=3.0)
    file.measured = "21.50 dB"
    clock[0] += 0.4
    file.update(50, 3.3)
    assert read(path) == Progress(10, 200, seconds=3.0), "too early to write again"
    clock[0] += 0.6
    file.update(110, 3.9)
    assert read(path) == Progress(110, 200, "21.50 dB", 3.9, 100.0)
    file.update(200, 4.0)
    assert read(path) == Progress(200, 200, "21.50 dB", 4.0, 190.0)
    assert [path.name for path in tmp_path.iterdir()] == ["train.progress.json"]


def test_a_training_that_goes_back_has_no_wrong_rate(tmp_path, clock):
    file = ProgressFile(tmp_path / "p", steps=300)
    for step in (100, 200, 40):
        clock[0] += 1
        file.update(step, 1.0)
    assert read(tmp_path / "p").steps_per_s == 0


def test_a_progress_that_cannot_be_written_stops_nothing(tmp_path):
    ProgressFile(tmp_path / "missing" / "p", 10).update(3, 1.0)
    ProgressFile(None, 10).update(3, 1.0)


@pytest.fixture
def preview(tmp_path, monkeypatch):
    """Return a preview that is written after each call to the engine."""
    monkeypatch.setattr(progress, "_FIRST_PREVIEW_S", {"cpu": 0.0})
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_PREVIEWS", 0.0)
    monkeypatch.setattr(progress, "_SHARE_OF_TIME", 1e9)
    return Preview(tmp_path / "train.preview.png", 1, "cpu")


@pytest.mark.parametrize("engine", ["cpu", "tape"])
def test_previews_change_no_byte_of_a_training(tmp_path, engine, preview):
    task, seen = make_task(), []

    def look(trainers):
        with Image.open(preview.path) as image:
            seen.append((image.size, trainers[0].steps_taken))

    train(task, tmp_path / "shown", engine=engine, stepped=[preview.update, look])
    train(task, tmp_path / "unseen", engine=engine)
    assert len(seen) > 5 and {size for size, _ in seen} == {(task.shape.width, task.shape.height)}
    for name in ("model.safetensors", f"checkpoints/step_{task.training.steps:08}.safetensors"):
        assert sha256(tmp_path / "shown" / name) == sha256(tmp_path / "unseen" / name)


def test_previews_take_a_fiftieth_of_the_time_at_the_most(tmp_path, monkeypatch):
    now, written = [0.0], []
    monkeypatch.setattr("entry.progress.time.monotonic", lambda: now[0])
    preview: Any = Preview(tmp_path / "train.preview.png", 1, "cpu")

    def write(trainer):
        written.append(now[0])
        now[0] += 2.0

    monkeypatch.setattr(preview, "_write", write)
    while now[0] < 500:
        now[0] += 0.2
        preview.update([None])
    assert written[0] == pytest.approx(10, abs=0.3)
    assert 4 <= len(written) <= 5, "two seconds each"


def test_a_preview_that_fails_is_not_tried_again(tmp_path, caplog, preview):
    preview.path = tmp_path / "file" / "train.preview.png"
    preview.path.parent.write_text("no folder")
    with caplog.at_level("INFO"):
        train(make_task(), tmp_path / "run", stepped=[preview.update])
    assert sum("no preview" in line for line in caplog.messages) == 1
    assert json.loads((tmp_path / "run/training.json").read_text())["notes"] == []
