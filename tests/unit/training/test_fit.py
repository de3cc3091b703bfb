"""Training and resuming give the same bytes, whatever happens in between."""

import json
import signal

import numpy as np
import pandas as pd
import pytest
from processes import PATIENCE_S, start_python
from small_fields import SMALL_FIELDS

from neuralfield.fields import FIELDS, field_settings
from neuralfield.images.coordinates import pixel_centres
from neuralfield.images.metrics import psnr_db
from neuralfield.rendering.render import render
from neuralfield.system.checkpoint import list_snapshots
from neuralfield.system.device import available_cores, select_device
from neuralfield.system.errors import EXIT_CODE_TRY_AGAIN, ResourceError
from neuralfield.system.provenance import sha256_of as sha256
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.image.image_task import ImageTask
from neuralfield.tasks.training_settings import ImageTraining
from neuralfield.training.fit import fit
from neuralfield.training.loop import Training

CPU = select_device("cpu")
SMALL = {
    "steps": 40,
    "batch_pixels": 100,
    "detail_share": 0.0,
    "supervision": "point",
    "snapshots": 6,
    "learning_rate": 2e-3,
}


def image(width=20, height=16, channels=1):
    x, y = np.meshgrid(np.linspace(0, 1, width), np.linspace(0, 1, height))
    disc = ((x - 0.5) ** 2 + (y - 0.4) ** 2 < 0.1).astype(np.float32)
    return np.stack([disc * (0.5 + 0.5 * x), y, 1 - y, x][:channels], axis=2).astype(np.float32)


def make_task(field=None, **training):
    small = {"type": "siren", "width": 16, "hidden_layers": 1}
    field = field if field and "type" in field else small | (field or {})
    settings = ImageTraining.from_mapping(SMALL | training)
    return ImageTask(image(), "grey", field_settings(field), settings)


def train(task, folder, say=None, device=None, **run_settings):
    """Train to the end, and return the reported lines, unless `say` gets them."""
    messages = []
    how = {"device": device or CPU, "say": say or messages.append} | run_settings
    fit([Training(task=task, folder=folder, **how)])
    return messages


@pytest.mark.parametrize(("supervision", "least_db"), [("point", 30), ("footprint", 27)])
def test_a_field_learns_an_image_and_renders_it(tmp_path, supervision, least_db):
    train(task := make_task(steps=600, batch_pixels=0, supervision=supervision), tmp_path)
    rendered = render(Model.load(tmp_path / "model.safetensors"), 20, 16, device=CPU)
    assert psnr_db(rendered, task.values) > least_db


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("kind", FIELDS)
def test_every_field_is_trained_footprints_saved_and_rendered(tmp_path, kind, precision):
    field = {"type": kind} | SMALL_FIELDS[kind]
    settings = {"supervision": "footprint", "precision": precision, "learning_rate": 1e-2}
    train(task := make_task(field, steps=60, **settings), tmp_path)
    model = Model.load(tmp_path / "model.safetensors")
    before, after = (
        psnr_db(render(rendered, 20, 16, device=CPU), task.values)
        for rendered in (Model.load(tmp_path / "checkpoints/step_00000000.safetensors"), model)
    )
    assert after > before + 0.5
    assert {array.dtype.name for array in model.arrays.values()} == {precision}


@pytest.mark.skipif(available_cores() < 2, reason="needs 2 cores")
@pytest.mark.parametrize("kind", FIELDS)
def test_every_field_ends_with_the_same_bytes_with_two_threads(tmp_path, kind, monkeypatch):
    monkeypatch.setattr("neuralfield.tasks.image.image_objective.BLOCK_POINTS", {"cpu": 50})
    task = make_task(
        {"type": kind} | SMALL_FIELDS[kind], steps=3, batch_pixels=0, supervision="footprint"
    )
    for threads in (1, 2):
        train(task, tmp_path / str(threads), threads=threads)
    assert sha256(tmp_path / "1/model.safetensors") == sha256(tmp_path / "2/model.safetensors")


class Stopped(BaseException):
    """The exception that simulates a kill: no code of the program runs after it."""


EVERYTHING = {"optimizer": "muon", "gradient_clip_norm": 0.01, "keep_best": True}


def require_same_bytes_after_a_kill(task, folder, row):
    """Kill a training after a row of its history, and resume it."""
    train(task, folder / "alone")
    rows = 0

    def stop(_):
        nonlocal rows
        rows += 1
        if rows == row:
            raise Stopped

    with pytest.raises(Stopped):
        train(task, folder / "killed", progress=stop, checkpoint_interval_s=0)
    messages = train(task, folder / "killed", checkpoint_interval_s=0)
    assert any("resuming from the state" in line for line in messages)
    for name in ("model.safetensors", f"checkpoints/step_{task.training.steps:08}.safetensors"):
        assert sha256(folder / "killed" / name) == sha256(folder / "alone" / name)


@pytest.mark.parametrize(
    ("field", "training", "row"),
    [
        *(
            ({"type": kind} | SMALL_FIELDS[kind], {"supervision": "footprint"}, 3)
            for kind in FIELDS
        ),
        *((None, EVERYTHING | {"learning_rate": 0.1, "schedule": "constant"}, n) for n in (3, 30)),
    ],
)
def test_a_training_survives_a_kill_after_a_row_of_its_history(tmp_path, field, training, row):
    require_same_bytes_after_a_kill(make_task(field, **training), tmp_path, row)


def test_the_best_network_is_found_by_its_own_loss_where_steps_look_at_all_pixels(tmp_path):
    settings = {"batch_pixels": 0, "supervision": "point", "keep_best": True}
    settings |= {"learning_rate": 0.03, "schedule": "constant"}
    task = make_task(steps=400, **settings)
    (messages,) = [line for line in train(task, tmp_path) if "saving the best network" in line]
    network = task.fresh_network().to(CPU, "float32")
    network.load(Model.load(tmp_path / "model.safetensors").arrays, "saved network")
    centres = pixel_centres(np, task.shape.width, task.shape.height).astype(np.float32)
    errors = network(centres).data - task.values.reshape(-1, task.shape.channels)
    own_loss = float(np.mean(errors**2))
    assert float(messages.split()[-1]) == pytest.approx(own_loss, rel=1e-3), "not the mean of a row"
    record = json.loads((tmp_path / "training.json").read_text())
    assert f"of step {record['best_step']}" in messages


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("loss", ["mse", "binary_cross_entropy", "huber"])
def test_every_loss_and_optimizer_learns(tmp_path, loss, optimizer):
    rate = 2e-3 if optimizer == "adam" else 0.1 if loss == "huber" else 1e-2
    field = {"output": "sigmoid"}
    task = make_task(field, loss=loss, optimizer=optimizer, momentum=0.9, learning_rate=rate)
    train(task, tmp_path)
    history = pd.read_csv(tmp_path / "history.csv")
    assert history.psnr_db.iloc[-1] > history.psnr_db.iloc[0] + 1


def test_outputs_are_what_the_layout_promises(tmp_path):
    train(make_task(), tmp_path)
    history = pd.read_csv(tmp_path / "history.csv")
    assert list(history) == ["step", "seconds", "loss", "psnr_db", "learning_rate", "rollbacks"]
    assert history.step.iloc[-1] == 40
    assert history.seconds.is_monotonic_increasing
    steps = [step for step, _ in list_snapshots(tmp_path / "checkpoints")]
    assert (steps[0], steps[-1], len(steps)) == (0, 40, 6)
    last = list_snapshots(tmp_path / "checkpoints")[-1][1]
    assert sha256(last) == sha256(tmp_path / "model.safetensors")
    assert (history.rollbacks == 0).all()
    record = json.loads((tmp_path / "training.json").read_text())
    assert (record["engine"], record["rollback"]) == ("cpu", None)
    assert record["step_microseconds"] > 0
    assert sum(record["memory_bytes"].values()) > 0


def test_too_little_memory_is_refused_before_anything_starts(tmp_path, monkeypatch):
    monkeypatch.setattr("neuralfield.system.device.available_memory_bytes", lambda device: 1000)
    with pytest.raises(ResourceError, match=r"needs about .* GiB of memory; expected at most"):
        train(make_task(), tmp_path)


def test_an_old_state_is_not_used_for_new_settings(tmp_path):
    train(make_task(), tmp_path, checkpoint_interval_s=0)
    messages = train(make_task(learning_rate=1e-3), tmp_path)
    assert any("starting at step 0" in line for line in messages)


def test_a_damaged_state_costs_only_the_steps_since_the_one_before(tmp_path):
    task = make_task()
    train(task, tmp_path / "alone")
    train(task, tmp_path / "hit", checkpoint_interval_s=0)
    newest = sorted((tmp_path / "hit/.state").glob("state_*"))[-1]
    newest.write_bytes(newest.read_bytes()[:100])
    messages = train(task, tmp_path / "hit", checkpoint_interval_s=0)
    assert any("using the previous state" in line for line in messages)
    assert any("resuming from the state saved after step 39" in line for line in messages)
    assert sha256(tmp_path / "hit/model.safetensors") == sha256(
        tmp_path / "alone/model.safetensors"
    )


JOB = """
import sys
import pausing, test_fit
from pathlib import Path
from neuralfield.system.interruption import Interrupted
pausing.pause_before(30)
try:
    test_fit.train(test_fit.killed_task(), Path(sys.argv[1]), checkpoint_interval_s=0.05)
except Interrupted as interrupted:
    print(interrupted)
    sys.exit(75)
"""


def killed_task():
    return make_task(steps=60, supervision="footprint")


@pytest.fixture(scope="module")
def left_alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    train(killed_task(), folder)
    return sha256(folder / "model.safetensors")


@pytest.mark.usual_seed
@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        *(pytest.param(n, marks=pytest.mark.slow) for n in (signal.SIGINT, signal.SIGUSR1)),
    ],
)
def test_a_signal_saves_and_the_next_attempt_goes_on(tmp_path, left_alone, number):
    with start_python(JOB, tmp_path) as job:
        assert job.stdout is not None and job.stdout.readline() == "paused\n"
        job.send_signal(number)
        out, _ = job.communicate("go on\n", timeout=PATIENCE_S)
    assert job.returncode == EXIT_CODE_TRY_AGAIN, out
    assert f"{signal.Signals(number).name}: saved after step" in out
    messages = train(killed_task(), tmp_path)
    assert any("resuming from the state saved after step" in line for line in messages)
    assert sha256(tmp_path / "model.safetensors") == left_alone


def test_history_measures_the_whole_image_although_batches_prefer_detail(tmp_path):
    task = make_task(learning_rate=1e-12, steps=400, detail_share=0.8, batch_pixels=30)
    train(task, tmp_path)
    history = pd.read_csv(tmp_path / "history.csv")
    steps = np.diff(history.step, prepend=0)
    squared_error = np.average(10 ** (-history.psnr_db / 10), weights=steps)
    rendered = render(Model.load(tmp_path / "model.safetensors"), 20, 16, device=CPU)
    task_values = task.values
    raw = 10 ** (-psnr_db(rendered, task_values) / 10)
    assert squared_error == pytest.approx(raw, rel=0.05)
