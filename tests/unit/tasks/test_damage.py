"""A thousand damaged files: each is reported or harmless, and none causes a wrong result."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import test_fit
from damaged_models import damages, require_damages_named

from neuralfield.images import (
    ImageData,
    image_digest,
    read_facts,
    read_pixel_csv,
    require_image,
    write_facts,
    write_pixel_csv,
)
from neuralfield.system.errors import NeuralfieldError
from neuralfield.tasks.image.image_model import Model
from neuralfield.training.state import StateFolder

CPU = test_fit.CPU


def small_task(seed=0, values=None):
    task = test_fit.make_task(steps=6, snapshots=3, batch_pixels=20, random_seed=seed)
    return task if values is None else replace(task, values=values)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """Return the folder of three trainings: one, one of another image, and one of another seed."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("neuralfield.training.loop._CALL_S", 0)
        for name, task in (
            ("own", small_task()),
            ("image", small_task(values=1 - test_fit.image())),
            ("seed", small_task(seed=1)),
        ):
            test_fit.train(task, folder / name, checkpoint_interval_s=0)
    return folder


def contents(folder: Path, *patterns: str) -> list[bytes]:
    return [path.read_bytes() for pattern in patterns for path in sorted(folder.glob(pattern))]


def test_a_state_is_named_and_the_one_before_it_used(trained, tmp_path):
    earlier, newest = sorted((trained / "own/.state").glob("state_*"))
    run = newest.name.split("_")[1]
    folder = StateFolder(tmp_path, run, lambda line: messages.append(line))
    others = [b"", earlier.read_bytes()]
    others += contents(trained, "image/.state/state_*", "seed/.state/state_*", "own/*.safetensors")
    (tmp_path / earlier.name).write_bytes(earlier.read_bytes())
    (tmp_path / newest.name).write_bytes(newest.read_bytes())
    messages: list[str] = []
    _, whole, whole_metadata = folder.load_latest(lambda step: True)  # type: ignore[misc]
    for content in damages(newest.read_bytes(), others, 300, seed=1):
        (tmp_path / newest.name).write_bytes(content)
        messages.clear()
        step, arrays, metadata = folder.load_latest(lambda step: True)  # type: ignore[misc]
        if messages:
            assert step == 5 and newest.name in messages[0] and "\n" not in messages[0]
        else:  # a padding byte of the header was changed
            assert step == 6 and metadata == whole_metadata
            assert all(np.array_equal(arrays[name], whole[name]) for name in whole)


def test_snapshots_are_named_and_taken_again(trained, tmp_path):
    own = Model.load(trained / "own/model.safetensors")
    names = sorted((trained / "own/checkpoints").iterdir())
    others = [b"", *contents(trained, "*/checkpoints/*", "own/.state/state_*")]
    folder = StateFolder(tmp_path, "0" * 16, lambda line: messages.append(line))
    folder.snapshots.mkdir()
    messages: list[str] = []
    target = folder.snapshots / names[1].name
    step = int(target.stem.split("_")[1])
    whole = names[1].read_bytes()
    for content in damages(whole, [o for o in others if o != whole], 200, seed=2):
        messages.clear()
        target.write_bytes(content)
        if not folder.whole_snapshots(own.load_snapshot):
            assert target.name in messages[0] and not target.exists()
        else:
            snapshot = own.load_snapshot(target, step)
            expected = own.load_snapshot(names[1], step)
            assert all(np.array_equal(snapshot.arrays[n], a) for n, a in expected.arrays.items())


def test_a_damaged_snapshot_of_a_state_changes_no_byte(trained, tmp_path, monkeypatch):
    monkeypatch.setattr("neuralfield.training.loop._CALL_S", 0)
    task = small_task()
    test_fit.train(task, tmp_path, checkpoint_interval_s=0)
    for path in (tmp_path / ".state").glob("snapshots_*/step_00000006*"):
        path.write_bytes(path.read_bytes()[:-1])
    messages = test_fit.train(task, tmp_path, checkpoint_interval_s=0)
    assert any("it will be saved again" in line for line in messages)
    assert any("resuming from the state saved after step 5" in line for line in messages)
    for path in (trained / "own/checkpoints").iterdir():
        assert (tmp_path / "checkpoints" / path.name).read_bytes() == path.read_bytes()


def test_a_network_is_named(trained, tmp_path):
    content = (trained / "own/model.safetensors").read_bytes()
    values = small_task().values
    image = ImageData.from_values(values, "grey", 8)
    write_facts(tmp_path / "picture.json", image, image)
    facts = read_facts(tmp_path / "picture.json")
    facts["resized"]["digest"] = image_digest(values)
    others = [
        b"",
        *contents(trained, "image/model*", "image/checkpoints/*", "own/.state/state_*"),
    ]
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)

    def load(path: Path) -> Model:
        model = Model.load(path)
        require_image(path, model.metadata.get("picture"), facts)
        return model

    damaged = damages(content, others, 250, seed=4)
    require_damages_named(path, damaged, load, "settings", error=NeuralfieldError)


@pytest.mark.parametrize("mode", ["grey", "rgb"])
def test_a_table_is_named(tmp_path, mode):
    random = np.random.default_rng(5)
    channels = {"grey": 1, "rgb": 3}[mode]
    images = [
        ImageData(random.integers(0, 256, shape, dtype=np.uint8), mode, 8)
        for shape in ((9, 12, channels), (9, 12, channels), (12, 9, channels))
    ]
    path = tmp_path / "pixels.csv"
    tables = []
    for image in images:
        write_pixel_csv(path, image)
        tables.append(path.read_bytes())
    write_facts(tmp_path / "picture.json", images[0], images[0])
    facts = read_facts(tmp_path / "picture.json")
    others = [b"", *tables[1:], (tmp_path / "picture.json").read_bytes()]
    for content in damages(tables[0], others, 150, seed=6):
        path.write_bytes(content)
        try:
            values = read_pixel_csv(path)
            require_image(path, image_digest(values), facts)
        except NeuralfieldError as error:
            assert str(error).startswith(str(path)) and "\n" not in str(error)
        else:
            np.testing.assert_array_equal(values, images[0].values())


def test_a_table_of_a_users_own_has_no_record_and_is_taken(tmp_path):
    image = ImageData(np.zeros((2, 2, 1), np.uint8), "grey", 8)
    write_facts(tmp_path / "picture.json", image, image)
    facts = read_facts(tmp_path / "picture.json")
    del facts["resized"]["digest"]
    require_image(tmp_path / "pixels.csv", "another", facts)
