"""Lists of the files of tiles, which show whether the files have changed."""

import os
from pathlib import Path

import pytest

from neuralfield.images.tiling import Tiling
from neuralfield.system.errors import InputError
from neuralfield.tasks.image.tile_files import (
    MOST_LISTS,
    changes_since,
    digests_of,
    read_list,
    tiles_of_lists,
    write_list,
)

TILES = tuple(Tiling(64, 36, 36, 8))
NAMES = ("model.safetensors", "checkpoints")


@pytest.fixture
def path(tmp_path) -> Path:
    """Write two tiles' files and a newer list of them; return the path of the list."""
    for tile in TILES:
        folder = tmp_path / tile.name
        (folder / "checkpoints").mkdir(parents=True)
        for name in ("model.safetensors", "checkpoints/step_1.safetensors"):
            (folder / name).write_text(f"{tile.name} {name}")
            os.utime(folder / name, (1e9, 1e9))
        (folder / "checkpoints/.snakemake_timestamp").touch()
    path = tmp_path / f"{TILES[0].name}.json"
    write_list(path, {tile.name: digests_of(tmp_path / tile.name, NAMES) for tile in TILES})
    return path


def test_nothing_has_happened_to_files_that_are_as_they_were(path):
    assert len(TILES) == 2 and len(read_list(path)[TILES[1].name]) == 2
    assert not list(changes_since(path, TILES))
    os.utime(path.parent / TILES[0].name / "model.safetensors", (4e9, 4e9))  # the same bytes
    assert not list(changes_since(path, TILES))


def test_lost_and_changed_files_are_named(path):
    lost = path.parent / TILES[0].name / "checkpoints/step_1.safetensors"
    changed = path.parent / TILES[1].name / "model.safetensors"
    lost.unlink()
    changed.write_text("another")
    os.utime(changed, (4e9, 4e9))
    changes = list(changes_since(path, TILES))
    assert len(changes) == 2
    assert (
        changes[0].startswith(f"{lost} cannot be read") and changes[1] == f"{changed} has changed"
    )


def test_a_list_of_other_tiles_is_named(path):
    assert list(changes_since(path, TILES[:1])) == [f"{path} belongs to other tiles"]


@pytest.mark.parametrize(
    "content",
    [
        *("", "[]", '{"format": 1}', '{"format": 1, "tiles": {"0_0": {"../up": "0"}}}'),
        *('{"format": 1, "tiles": {"0_0": 5}}', '{"format": 1, "tiles": []}'),
    ],
)
def test_a_damaged_list_is_refused(path, content):
    path.write_text(content)
    with pytest.raises(InputError, match="remove it and run the same command again"):
        read_list(path)
    (change,) = changes_since(path, TILES)
    assert str(path) in change


def test_lists_are_few_and_have_all_tiles_in_order():
    for tiling in (Tiling(64, 36, 36, 8), Tiling(35_000, 35_000, 1024, 32)):
        lists = tiles_of_lists(tiling)
        assert len(lists) == min(MOST_LISTS, tiling.count)
        assert [tile for tiles in lists for tile in tiles] == list(tiling)
