"""A training stops before its time limit."""

import math
import time

import pytest
from test_fit import make_task, sha256, train

from neuralfield.system.interruption import (
    Interrupted,
    StopSignals,
    leaving_time_s,
    slurm_time_left_s,
)


def test_the_earlier_of_two_limits_counts():
    started_s = time.monotonic()
    slurm = {"SLURM_JOB_END_TIME": str(int(time.time()) + 500)}
    assert leaving_time_s(None, 60, {}, started_s=started_s) == math.inf
    assert leaving_time_s(900, 60, {}, started_s=started_s) == pytest.approx(started_s + 840)
    for limit_s in (None, 900):
        leaving_s = leaving_time_s(limit_s, 60, slurm, started_s=started_s)
        assert leaving_s - started_s == pytest.approx(440, abs=20)
    assert leaving_time_s(300, 60, slurm, started_s=started_s) == pytest.approx(started_s + 240)
    nonsense = {"SLURM_JOB_END_TIME": "Unknown"}
    assert leaving_time_s(900, 60, nonsense, started_s=started_s) == pytest.approx(started_s + 840)


def test_half_of_a_limit_is_the_longest_margin():
    started_s = time.monotonic()
    assert leaving_time_s(60, 60, {}, started_s=started_s) == pytest.approx(started_s + 30)
    slurm = {"SLURM_JOB_END_TIME": str(int(time.time()) + 40)}
    leaving_s = leaving_time_s(None, 60, slurm, started_s=started_s)
    assert leaving_s - started_s == pytest.approx(20, abs=9)
    late = {"SLURM_JOB_END_TIME": str(int(time.time()) - 5)}
    assert leaving_time_s(None, 60, late, started_s=started_s) <= time.monotonic()


@pytest.mark.parametrize(
    ("messages", "left_s"),
    [
        ("0:55", 55),
        ("9:45", 585),
        ("2:00:00", 7200),
        ("1-02:03:04", 93784),
        ("UNLIMITED", math.inf),
        ("INVALID", math.inf),
        ("", math.inf),
    ],
)
def test_a_job_asks_slurm_how_long_it_may_take(tmp_path, messages, left_s):
    """A script replaces squeue; the tests on a cluster use the real one."""
    squeue = tmp_path / "squeue"
    squeue.write_text(f'#!/bin/sh\necho "$*" > {tmp_path}/asked\necho "{messages}"\n')
    squeue.chmod(0o755)
    job = {"SLURM_JOB_ID": "17", "PATH": str(tmp_path)}
    assert slurm_time_left_s(job) == left_s
    assert "--jobs 17 " in (tmp_path / "asked").read_text()
    squeue.write_text("#!/bin/sh\nexit 1\n")
    assert slurm_time_left_s(job) == math.inf
    squeue.unlink()
    assert slurm_time_left_s(job) == math.inf


def test_time_is_a_reason_to_stop():
    with pytest.raises(
        Interrupted, match="time limit: saved after step 7; run the same command again"
    ):
        StopSignals(time.monotonic() - 1).raise_if_received("saved after step 7")
    StopSignals(time.monotonic() + 60).raise_if_received("nothing")


def test_every_attempt_goes_on_even_where_time_is_up_at_once(tmp_path):
    """However short the limit, enough attempts end with the bytes of an undisturbed run."""
    task = make_task()
    train(task, tmp_path / "alone")
    attempts = 1
    while attempts < 60:
        try:
            train(task, tmp_path / "pieces", leave_at_s=time.monotonic())
            break
        except Interrupted as pause:
            assert str(pause).startswith(f"time limit: saved after step {attempts};")
            attempts += 1
    assert attempts == 40  # one step each
    model = "model.safetensors"
    assert sha256(tmp_path / "pieces" / model) == sha256(tmp_path / "alone" / model)
