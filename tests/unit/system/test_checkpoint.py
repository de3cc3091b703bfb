import json
import struct

import numpy as np
import pytest

from neuralfield.system.checkpoint import list_snapshots, load_arrays, save_arrays, snapshot_path
from neuralfield.system.errors import CheckpointError
from neuralfield.system.interruption import StopSignals
from neuralfield.training.state import StateFolder

ARRAYS = {"weight": np.arange(6, dtype=np.float32).reshape(2, 3), "step": np.array([3])}


def test_arrays_and_metadata_come_back(tmp_path):
    save_arrays(tmp_path / "a.safetensors", ARRAYS, {"note": "ümlaut", "numbers": [1, 2.5]})
    arrays, metadata = load_arrays(tmp_path / "a.safetensors")
    assert metadata == {"note": "ümlaut", "numbers": [1, 2.5]}
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype


def test_the_same_content_gives_the_same_bytes(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    save_arrays(first, ARRAYS, {"one": 1, "two": 2})
    save_arrays(second, dict(reversed(ARRAYS.items())), {"two": 2, "one": 1})
    assert first.read_bytes() == second.read_bytes()


def test_every_changed_byte_and_every_length_is_noticed(tmp_path):
    path = tmp_path / "a.safetensors"
    save_arrays(path, ARRAYS, {"step": 3})
    content = path.read_bytes()
    (header_bytes,) = struct.unpack("<Q", content[:8])
    padding = range(8 + len(content[8 : 8 + header_bytes].rstrip()), 8 + header_bytes)
    for position in range(len(content)):
        if position in padding:  # padding after the header has no content
            continue
        path.write_bytes(
            content[:position] + bytes([content[position] ^ 0x10]) + content[position + 1 :]
        )
        with pytest.raises(CheckpointError):
            load_arrays(path)
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(CheckpointError):
            load_arrays(path)


@pytest.mark.parametrize(
    "content",
    [b"", b"PNG", b"\xff" * 64, struct.pack("<Q", 2) + b"{}"],
)
def test_files_of_others_are_refused_in_words(tmp_path, content):
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="expected a file written by neuralfield"):
        load_arrays(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"b\.safetensors: no such file"):
        load_arrays(tmp_path / "b.safetensors")


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path):
    path = tmp_path / "a.safetensors"
    save_arrays(path, ARRAYS, {"step": 3})
    before = path.read_bytes()
    with pytest.raises(TypeError):
        save_arrays(path, ARRAYS, {"step": object()})
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]


def test_snapshots_are_listed_by_step(tmp_path):
    for step in (20, 3, 100):
        save_arrays(snapshot_path(tmp_path, step), ARRAYS, {})
    (tmp_path / "step_1.safetensors").touch()
    assert [step for step, _ in list_snapshots(tmp_path)] == [3, 20, 100]


class TestStateFolder:
    @pytest.fixture
    def messages(self):
        return []

    @pytest.fixture
    def folder(self, tmp_path, messages):
        return StateFolder(tmp_path / "state", "0123456789abcdef", messages.append)

    @staticmethod
    def save(folder, *steps):
        for step in steps:
            folder.save(step, ARRAYS | {"step": np.array([step])}, {"seconds": step / 10})

    def test_the_newest_is_loaded_and_two_are_kept(self, folder):
        self.save(folder, 5, 10, 15)
        step, arrays, metadata = folder.load_latest(lambda step: True)
        assert (step, arrays["step"][0], metadata["seconds"]) == (15, 15, 1.5)
        assert len(list(folder.folder.glob("state_*"))) == 2

    def test_a_broken_one_is_named_and_the_one_before_it_used(self, folder, messages):
        self.save(folder, 5, 10)
        newest = sorted(folder.folder.glob("state_*"))[-1]
        newest.write_bytes(newest.read_bytes()[:-3])
        assert folder.load_latest(lambda step: True)[0] == 5
        assert newest.name in messages[0] and "using the previous state" in messages[0]

    def test_a_renamed_state_is_not_believed(self, folder, messages):
        self.save(folder, 5)
        path = next(folder.folder.glob("state_*"))
        path.rename(path.with_name(path.name.replace("00000005", "00000009")))
        assert folder.load_latest(lambda step: True) is None
        assert "another run" in messages[0]

    def test_other_settings_start_afresh_and_say_so(self, folder, messages, tmp_path):
        self.save(folder, 5)
        other = StateFolder(folder.folder, "f" * 16, messages.append)
        assert other.load_latest(lambda step: True) is None
        other.forget_other_runs()
        assert "starting at step 0" in messages[0]
        assert folder.load_latest(lambda step: True) is None

    def test_one_process_at_a_time(self, folder, messages):
        """A second holder waits, and a signal ends the wait."""
        stop = StopSignals()
        with folder.locked(stop):
            stop._note(15, None)
            with pytest.raises(BaseException, match="SIGTERM: was waiting"), folder.locked(stop):
                pass
        assert "another process is training here" in messages[0]


def test_metadata_is_one_key_of_sorted_json(tmp_path):
    """Several metadata keys of safetensors would be written in a varying order."""
    path = tmp_path / "a.safetensors"
    save_arrays(path, ARRAYS, {"b": 1, "a": 2})
    content = path.read_bytes()
    (header_bytes,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + header_bytes])
    assert list(header["__metadata__"]) == ["neuralfield"]
