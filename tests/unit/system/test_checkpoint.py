import struct

import numpy as np
import pytest

from neuralfield.system.checkpoint import load_arrays, save_arrays
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
    path.unlink()
    with pytest.raises(CheckpointError, match=r"a\.safetensors: no such file"):
        load_arrays(path)


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path):
    path = tmp_path / "a.safetensors"
    save_arrays(path, ARRAYS, {"step": 3})
    before = path.read_bytes()
    with pytest.raises(TypeError):
        save_arrays(path, ARRAYS, {"step": object()})
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]


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

    def test_a_renamed_state_is_not_believed(self, folder, messages):
        self.save(folder, 5)
        path = next(folder.folder.glob("state_*"))
        path.rename(path.with_name(path.name.replace("00000005", "00000009")))
        assert folder.load_latest(lambda step: True) is None
        assert "another run" in messages[0]

    def test_one_process_at_a_time(self, folder, messages):
        """A second holder waits, and a signal ends the wait."""
        stop = StopSignals()
        with folder.locked(stop):
            stop._note(15, None)
            with pytest.raises(BaseException, match="SIGTERM: was waiting"), folder.locked(stop):
                pass
        assert "another process is training here" in messages[0]
