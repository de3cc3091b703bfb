"""Each system call of a write fails, or ends the process; files saved earlier stay good."""

import errno
import os
from pathlib import Path

import failing_files as failing
import numpy as np
import pytest
import test_fit
from failing_files import FailingFiles, failing_with, files_in, in_a_child

from neuralfield.system.checkpoint import load_arrays
from neuralfield.system.errors import StorageError
from neuralfield.system.files import replacing, write_atomically
from neuralfield.training.state import StateFolder

ARRAYS = {"weight": np.arange(600, dtype=np.float32)}
RUN = "0123456789abcdef"
HAPPENINGS = {
    "ENOSPC": failing_with(errno.ENOSPC),
    "killed before": failing.killed_before,
    "short write": failing.writing_little,
}


def save_third_state(folder: Path) -> None:
    StateFolder(folder, RUN, print).save(3, ARRAYS, {"steps_taken": 3})


def calls_of_a_save(folder: Path) -> list[str]:
    prepare(folder)
    with FailingFiles()() as files:
        save_third_state(folder)
    return files.calls


def prepare(folder: Path) -> None:
    state = StateFolder(folder, RUN, print)
    for step in (1, 2):
        state.save(step, ARRAYS, {"steps_taken": step})


def test_no_system_call_of_a_save_is_missed(tmp_path):
    """Saving is safe in this order: write, sync and rename the file, then sync the folder."""
    assert calls_of_a_save(tmp_path) == [
        *("mkdir", "mkdir", "open", "write", "close"),
        *("open", "fsync", "close", "replace", "open", "fsync", "close"),
        "unlink",
    ]


@pytest.mark.parametrize("happening", HAPPENINGS)
def test_a_save_goes_wrong_at_every_call_and_the_last_good_state_is_there(tmp_path, happening):
    count = len(calls_of_a_save(tmp_path / "counted"))
    for at in range(count):
        folder = tmp_path / str(at)
        prepare(folder)
        with FailingFiles(at, HAPPENINGS[happening])() as files:
            status = in_a_child(lambda folder=folder: save_or_say(folder))
        assert not files.calls, "the child's calls are its own"
        assert status == (failing.KILLED if "killed" in happening else 0)
        messages: list[str] = []
        found = StateFolder(folder, RUN, messages.append).load_latest(lambda step: True)
        assert found and found[0] in (2, 3) and not messages
        np.testing.assert_array_equal(found[1]["weight"], ARRAYS["weight"])
        save_third_state(folder)  # the disk has space again
        assert sorted(path.name for path in folder.iterdir()) == [
            f"state_{RUN}_{step:08d}.safetensors" for step in (2, 3)
        ], "a temporary file is left over"


def save_or_say(folder: Path) -> None:
    try:
        save_third_state(folder)
    except StorageError as error:
        assert "\n" not in str(error) and "the same command" in str(error)


def small_task():
    return test_fit.make_task(steps=3, snapshots=2, batch_pixels=20)


def train(folder: Path) -> None:
    try:
        test_fit.train(small_task(), folder, checkpoint_interval_s=0)
    except StorageError as error:
        assert "\n" not in str(error)


def outputs(folder: Path) -> dict[str, bytes]:
    """Return the outputs that must have the same bytes, which excludes files with times."""
    timed = ("history.csv", "training.json")
    found = files_in(folder).items()
    return {name: b for name, b in found if name not in timed and not name.startswith(".state/")}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["errors", "kills"])
def test_a_training_goes_wrong_at_every_call_and_ends_with_the_same_bytes(
    tmp_path, monkeypatch, kind
):
    monkeypatch.setattr("neuralfield.training.loop._CALL_S", 0)  # a state after every step
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # slow, and only for power failures
    train(tmp_path / "alone")
    alone = outputs(tmp_path / "alone")
    assert len(alone) == 3  # two snapshots and the model
    with FailingFiles()() as files:
        train(tmp_path / "counted")
    count = len(files.calls)
    assert files.calls.count("replace") == 3 + 2 + 2 + 1 + 2  # states, snapshots, network, records
    errors = [failing_with(number) for number in failing.ERRORS]
    for at in range(count):
        folder = tmp_path / f"{kind}_{at}"
        wrong = failing.killed_before if kind == "kills" else errors[at % len(errors)]
        with FailingFiles(at, wrong)():
            in_a_child(lambda folder=folder: train(folder))
        train(folder)
        assert outputs(folder) == alone, f"call {at}, {files.calls[at]}"


def test_a_file_system_that_does_not_sync_folders(tmp_path, monkeypatch):
    real = os.fsync

    def fsync(handle):
        if Path(f"/proc/self/fd/{handle}").is_dir():
            raise OSError(errno.EINVAL, "no such thing")
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    write_atomically(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"


def test_a_listing_that_lags_behind(tmp_path, monkeypatch):
    """Names of removed files are skipped; unlisted new files cost some steps."""
    monkeypatch.setattr("neuralfield.training.loop._CALL_S", 0)
    train(tmp_path / "alone")
    train(tmp_path / "hit")
    (tmp_path / "hit/model.safetensors").unlink()
    states = sorted((tmp_path / "hit/.state").glob("state_*"))
    monkeypatch.setattr(
        StateFolder, "_states", lambda self: [(2, states[0]), (3, states[1]), (4, Path("gone"))]
    )
    states[1].unlink()
    messages = test_fit.train(small_task(), tmp_path / "hit", checkpoint_interval_s=0)
    assert any("no such file" in line for line in messages)
    assert any("resuming from the state saved after step 2" in line for line in messages)
    assert outputs(tmp_path / "hit") == outputs(tmp_path / "alone")


def test_what_a_killed_process_left_is_removed(tmp_path):
    def killed_while_writing():
        with replacing(tmp_path / "a") as temporary:
            temporary.write_bytes(b"half")
            os._exit(failing.KILLED)

    assert in_a_child(killed_while_writing) == failing.KILLED
    assert [path.name[-4:] for path in tmp_path.iterdir()] == [".tmp"]
    write_atomically(tmp_path / "a", b"whole")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_link_with_the_temporary_name_leads_nowhere(tmp_path):
    with replacing(tmp_path / "a") as temporary:
        temporary.touch()
    (tmp_path / "other").write_bytes(b"mine")
    temporary.symlink_to(tmp_path / "other")
    write_atomically(tmp_path / "a", b"new")
    assert (tmp_path / "other").read_bytes() == b"mine"
    assert (tmp_path / "a").read_bytes() == b"new"


@pytest.mark.parametrize("name", ["/proc/new", "/proc/none/new"])
def test_a_folder_that_takes_no_files_is_named(name):
    with pytest.raises(StorageError, match=f"{name}: .*a folder that keeps new files"):
        write_atomically(name, b"")


def test_a_pipe_in_place_of_a_network_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.safetensors")
    with pytest.raises(Exception, match="not a regular file"):
        load_arrays(tmp_path / "a.safetensors")
