"""Jobs that claim a GPU: the processes are real, but the GPUs are only names."""

import time
from pathlib import Path

import pytest
from processes import IMPORTS, start_python

from neuralfield.system import device, device_claim
from neuralfield.system.device_claim import visible_gpus
from neuralfield.system.errors import ResourceError

CLAIM = """
import os, sys
from pathlib import Path
from neuralfield.system import device_claim
device_claim.LOCK_FOLDER = Path(sys.argv[1])
device_claim.visible_gpus = lambda environment: sys.argv[3].split(",")
gpu = device_claim.claim_gpu(int(sys.argv[2]), lambda line: print("reported", line, flush=True))
print("has", gpu, os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
sys.stdin.read()
"""


@pytest.fixture
def start(tmp_path):
    """Yield a function that starts processes that claim a GPU and keep it."""
    started = []

    def claim(share=1, gpus="GPU-a,GPU-b"):
        process = start_python(CLAIM, tmp_path / "locks", share, gpus, env=IMPORTS | {"PATH": ""})
        started.append(process)
        return process

    yield claim
    for process in started:
        process.kill()
        process.wait()


def first_line(process):
    return process.stdout.readline().split()


def test_each_process_has_a_gpu_of_its_own_and_sees_no_other(start):
    lines = sorted(first_line(start()) for _ in range(2))

    assert lines == [["has", "GPU-a", "GPU-a"], ["has", "GPU-b", "GPU-b"]]


def test_one_too_many_waits_until_a_gpu_is_free_even_by_a_crash(start):
    first, second = start(), start()
    taken = [first_line(first)[1], first_line(second)[1]]
    third = start()

    assert first_line(third)[0] == "reported"
    time.sleep(1.2)  # it has tried again in the meantime
    assert third.poll() is None
    first.kill()

    assert first_line(third)[:2] == ["has", taken[0]]


def test_processes_share_a_gpu_only_where_asked_and_where_each_gpu_has_one(start):
    gpus = [first_line(start(share=2))[1] for _ in range(4)]

    assert gpus == ["GPU-a", "GPU-b", "GPU-a", "GPU-b"]
    assert first_line(start(share=2))[0] == "reported"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, ["GPU-aa1", "GPU-bb2", "GPU-cc3"]),
        ("2,0", ["GPU-cc3", "GPU-aa1"]),
        ("GPU-bb", ["GPU-bb2"]),
        ("1,9,0", ["GPU-bb2"]),
        ("-1", []),
        ("", []),
        ("MIG-dd4", ["MIG-dd4"]),
    ],
)
def test_only_gpus_that_whoever_started_it_allows(monkeypatch, given, expected):
    gpus = ["GPU-aa1", "GPU-bb2", "GPU-cc3"]
    monkeypatch.setattr(device_claim, "_gpus_of_machine", lambda: gpus)
    environment = {} if given is None else {"CUDA_VISIBLE_DEVICES": given}

    assert visible_gpus(environment) == expected


def test_no_gpu_allowed_is_an_error_that_says_what_to_do(monkeypatch):
    monkeypatch.setattr(device_claim, "visible_gpus", lambda environment: [])

    with pytest.raises(ResourceError, match=r"training\.device: cpu"):
        device_claim.claim_gpu(1, print)


def test_a_link_in_place_of_a_lock_is_not_followed(monkeypatch, tmp_path):
    monkeypatch.setattr(device_claim, "visible_gpus", lambda environment: ["GPU-a"])
    monkeypatch.setattr(device_claim, "LOCK_FOLDER", tmp_path)
    victim = tmp_path / "victim"
    (tmp_path / "GPU-a.0").symlink_to(victim)

    with pytest.raises(ResourceError, match="a file to lock a GPU with"):
        device_claim.claim_gpu(1, print)
    assert not victim.exists()


@pytest.mark.parametrize(
    ("visible", "present"), [(None, True), ("0", True), ("", False), ("-1", False)]
)
def test_where_all_gpus_are_hidden_there_is_none(monkeypatch, visible, present):
    """`device: auto` then selects the CPU."""
    monkeypatch.setattr(device, "DRIVER_FILE", Path(__file__))
    monkeypatch.setattr(device.importlib.util, "find_spec", lambda name: name)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert device.gpu_is_present() is present


@pytest.mark.parametrize(
    ("free_mb", "expected"),
    [
        ({"GPU-a": 500, "GPU-b": 9000}, {"GPU-b"}),
        ({"GPU-a": 500, "GPU-b": 900}, {"GPU-b"}),
        ({"GPU-a": 8000, "GPU-b": 9000}, {"GPU-a", "GPU-b"}),
        (None, {None}),
        ({}, {None}),
    ],
)
def test_a_short_job_joins_a_gpu_that_has_room(monkeypatch, tmp_path, free_mb, expected):
    total_mb = {"GPU-a": 9000, "GPU-b": 9000}
    monkeypatch.setattr(device_claim, "LOCK_FOLDER", tmp_path)
    monkeypatch.setattr(device_claim, "_held", [])
    monkeypatch.setattr(
        device_claim, "memory_mb", lambda kind: free_mb if kind == "free" else total_mb
    )
    chosen = set()
    for process in range(4):
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        monkeypatch.setattr(device_claim.os, "getpid", lambda process=process: process)
        gpu = device_claim.join_gpu(2000, print)
        assert device_claim.os.environ.get("CUDA_VISIBLE_DEVICES") == gpu
        chosen.add(gpu)

    assert chosen == expected, "jobs spread over the GPUs that have room"


JOIN = """
import sys
from pathlib import Path
from neuralfield.system import device_claim
device_claim.LOCK_FOLDER = Path(sys.argv[1])
device_claim.memory_mb = lambda kind: {"GPU-a": 8000}
print(device_claim.join_gpu(int(sys.argv[2]), lambda line: print("waits", flush=True)), flush=True)
sys.stdin.read()
"""


def test_short_jobs_together_use_no_more_memory_than_there_is(tmp_path):
    started = []

    def join(need_mb):
        started.append(start_python(JOIN, tmp_path, need_mb, env=IMPORTS | {"PATH": ""}))
        return started[-1]

    try:
        first, second = join(3000), join(4500)
        assert first_line(first) == first_line(second) == ["GPU-a"]
        third = join(99_000)  # needs more than there is: runs alone
        assert first_line(third) == ["waits"]
        first.kill()
        second.kill()
        assert first_line(third) == ["GPU-a"]
    finally:
        for process in started:
            process.kill()
            process.wait()
