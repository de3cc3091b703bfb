"""Several processes run the same training at once, with the same state folder and outputs."""

import errno
import fcntl
import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import pandas as pd
import pytest
from processes import PATIENCE_S, start_python, wait_until
from test_fit import make_task, sha256, train

from neuralfield.system.checkpoint import list_snapshots

JOB = """
import sys
import pausing, test_two_runs
from functools import partial
from pathlib import Path
pausing.pause_before(30)
test_two_runs.train(
    test_two_runs.shared_task(), Path(sys.argv[1]), checkpoint_interval_s=0,
    say=partial(print, flush=True), engine="tape",
)
"""


def shared_task():
    return make_task(steps=60, supervision="footprint")


def start(folder, name="job"):
    """Start a training that pauses half way."""
    with (folder / f"{name}.log").open("w") as log:
        return start_python(JOB, folder, stdout=log)


def output_of(folder, name="job"):
    return (folder / f"{name}.log").read_text()


def let_finish(job):
    job.communicate("go on\n", timeout=PATIENCE_S)
    assert job.returncode == 0


def content(folder):
    history = pd.read_csv(folder / "history.csv").drop(columns="seconds").to_csv()
    snapshots = {step: sha256(path) for step, path in list_snapshots(folder / "checkpoints")}
    return sha256(folder / "model.safetensors"), snapshots, history


@pytest.fixture(scope="module")
def left_alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    train(shared_task(), folder, engine="tape")
    return content(folder)


@pytest.mark.usual_seed
def test_started_at_once_one_waits_and_the_results_are_those_of_one(tmp_path, left_alone):
    names = ("a", "b", "c")
    jobs = [start(tmp_path, name) for name in names]
    waiting = "another process is training here; waiting"
    wait_until(lambda: sum(waiting in output_of(tmp_path, name) for name in names) == 2)
    with ThreadPoolExecutor() as pool:
        list(pool.map(let_finish, jobs))
    assert content(tmp_path) == left_alone


@pytest.mark.usual_seed
@pytest.mark.slow
def test_when_one_is_killed_the_other_goes_on_from_its_state(tmp_path, left_alone):
    first = start(tmp_path, "first")
    wait_until(lambda: len(list(tmp_path.glob(".state/state_*.safetensors"))) == 2)
    second = start(tmp_path, "second")
    wait_until(lambda: "waiting for it to end" in output_of(tmp_path, "second"))
    first.kill()
    first.communicate()
    let_finish(second)
    assert "resuming from the state saved after step" in output_of(tmp_path, "second")
    assert content(tmp_path) == left_alone


@pytest.mark.slow
def test_a_state_folder_that_is_removed_meanwhile_is_begun_anew(tmp_path, left_alone):
    """Remove the folder as Snakemake does at the end, while another process waits for it."""
    (tmp_path / ".state").mkdir()
    with (tmp_path / ".state" / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        job = start(tmp_path)
        wait_until(lambda: "waiting for it to end" in output_of(tmp_path))
        shutil.rmtree(tmp_path / ".state")
    let_finish(job)
    assert content(tmp_path) == left_alone


def test_a_file_system_without_locks_is_reported_and_does_not_stop_a_training(
    tmp_path, monkeypatch
):
    def no_locks(file, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    messages = train(make_task(), tmp_path)
    assert len(messages) == 1 and "this file system has no locks" in messages[0]
    assert (tmp_path / "model.safetensors").exists()
