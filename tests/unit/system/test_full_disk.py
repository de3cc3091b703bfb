"""Real file systems that are full, read-only or forbidden: one line, and no good file is lost."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import test_fit
from failing_files import in_a_child, let_others_enter
from small_disk import small_disk

from neuralfield.images import ImageData, write_facts, write_image, write_pixel_csv
from neuralfield.images.timelapse import write_timelapse
from neuralfield.system.checkpoint import list_snapshots, load_arrays, save_arrays
from neuralfield.system.errors import StorageError
from neuralfield.system.files import write_atomically
from neuralfield.tasks.image.image_model import Model
from neuralfield.training.state import StateFolder

IMAGE = ImageData(np.random.default_rng(0).integers(0, 256, (96, 128, 3), dtype=np.uint8), "rgb", 8)
FRAMES = [np.roll(IMAGE.pixels, 8 * number, axis=1) for number in range(5)]

WRITERS: dict[str, Callable[[Path], object]] = {
    "image.png": lambda path: write_image(path, IMAGE),
    "pixels.csv": lambda path: write_pixel_csv(path, IMAGE),
    "picture.json": lambda path: write_facts(path, IMAGE, IMAGE),
    "timelapse.mp4": lambda path: write_timelapse(path, FRAMES, 10),
    "timelapse.gif": lambda path: write_timelapse(path, FRAMES, 10),
    "timelapse.webp": lambda path: write_timelapse(path, FRAMES, 10),
    "report.html": lambda path: write_atomically(path, b"<p>" * 9000),
    "model.safetensors": lambda path: save_arrays(path, {"weight": np.zeros(9000)}, {}),
    "state": lambda path: StateFolder(path, "0" * 16, print).save(1, {"a": np.zeros(9)}, {}),
}


def in_one_line(error: StorageError, name: str, reason: str) -> None:
    messages = str(error)
    assert "\n" not in messages and name in messages and reason in messages
    assert "the same command again" in messages


@pytest.mark.parametrize("name", WRITERS)
def test_every_writer_says_in_a_line_that_the_disk_is_full(tmp_path, name):
    with small_disk(tmp_path / "disk", 2048) as disk:
        ballast = disk.fill()
        with pytest.raises(StorageError) as caught:
            WRITERS[name](disk.folder / name)
        in_one_line(caught.value, name, "No space left on device")
        assert [path.name for path in disk.folder.rglob("*") if path.is_file()] == ["ballast"]
        ballast.unlink()
        WRITERS[name](disk.folder / name)
        # the disk is full in the middle of a write, and the old file has to stay
        if not (disk.folder / name).is_dir() and (disk.folder / name).stat().st_size > 8192:
            before = (disk.folder / name).read_bytes()
            disk.fill(but_kib=4)
            with pytest.raises(StorageError):
                WRITERS[name](disk.folder / name)
            assert (disk.folder / name).read_bytes() == before


@pytest.mark.parametrize("name", WRITERS)
def test_every_writer_says_in_a_line_that_a_permission_is_missing(tmp_path, name):
    locked = tmp_path / "locked"
    locked.mkdir()
    locked.chmod(0o555)
    let_others_enter(tmp_path)

    def write_as_nobody():
        if os.geteuid() == 0:
            os.setuid(65534)
        with pytest.raises(StorageError) as caught:
            WRITERS[name](locked / name)
        in_one_line(caught.value, name, "Permission denied")

    assert in_a_child(write_as_nobody) == 0
    assert not list(locked.iterdir())


@pytest.mark.parametrize(
    "free_kib", [28, *(pytest.param(n, marks=pytest.mark.slow) for n in (12, 52))]
)
def test_a_training_on_a_full_disk_goes_on_when_there_is_space(tmp_path, monkeypatch, free_kib):
    monkeypatch.setattr("neuralfield.training.loop._CALL_S", 0)
    task = test_fit.make_task({"width": 32}, steps=6, snapshots=3)
    test_fit.train(task, tmp_path / "alone")
    with small_disk(tmp_path / "disk", 1024) as disk:
        ballast = disk.fill(but_kib=free_kib)
        run = disk.folder / "run"
        with pytest.raises(StorageError) as caught:
            test_fit.train(task, run, checkpoint_interval_s=0)
        in_one_line(caught.value, str(run), "No space left on device")
        for path in (run / ".state").glob("state_*"):
            load_arrays(path)  # every saved file is complete
        for _, path in list_snapshots(next((run / ".state").glob("snapshots_*"), run)):
            Model.load(path)
        ballast.unlink()
        messages = test_fit.train(task, run, checkpoint_interval_s=0)
        assert not any("cannot be read" in line for line in messages)
        assert test_fit.sha256(run / "model.safetensors") == test_fit.sha256(
            tmp_path / "alone/model.safetensors"
        )
