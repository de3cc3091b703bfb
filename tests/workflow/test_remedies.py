"""The remedies of errors work: after them everything is made again, with the same bytes."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from workspace import Workspace

pytestmark = pytest.mark.slow

SAME_BYTES = (".safetensors", ".png", ".gif", ".npy")
ERROR = re.compile(r"^\w+(?: [^/\s]\S*)*: (results/[^:]+): (.+)$", re.MULTILINE)
SNAPSHOT = "checkpoints/step_00000002.safetensors"
FEW = [
    f"results/tiny/{field}/{name}"
    for field in ("own", "seed")
    for name in ("model.safetensors", "metrics.json", "timelapse.gif")
]
TARGETS = ("all", "edges", "tables", "classifiers")


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Workspace:
    """An image and two networks that differ by their random seed."""
    workspace = Workspace(tmp_path_factory.mktemp("small"))
    adopt_quick_settings(workspace)
    workspace.succeed(*FEW)
    return workspace


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Workspace:
    """Whatever can be made: tiles, segments, edges, a table with two networks, a classifier."""
    workspace = Workspace(tmp_path_factory.mktemp("large"))
    adopt_large_settings(workspace)
    workspace.succeed(*TARGETS)
    return workspace


def adopt_large_settings(workspace: Workspace) -> None:
    adopt_quick_settings(workspace)
    workspace.draw("other.png", seed=1)
    parts = workspace.settings["fields"]["own"] | {"training": {"segments": 2}}
    workspace.settings["fields"]["parts"] = parts
    tiles = {"size": 16, "overlap": 4}
    workspace.settings["images"] |= {
        "other": {"path": "other.png", "size": 16, "fields": ["own"]},
        "tiled": {"path": "other.png", "tiles": tiles, "fields": ["own", "seed"]},
    }
    workspace.add_table()
    table = workspace.settings["tables"]["slope"] | {"sizes": [[4]]}
    workspace.settings["tables"] |= {"slope": table, "seed": table | {"training": {"steps": 30}}}
    workspace.add_classifier()


def adopt_quick_settings(workspace: Workspace) -> None:
    siren = {"type": "siren", "width": 8, "hidden_layers": 1}
    workspace.settings["fields"] = {"own": siren, "seed": siren | {"training": {"random_seed": 1}}}
    workspace.settings["training"] |= {"engine": "tape"}
    workspace.settings["timelapse"] |= {"formats": ["gif"]}


def facts(workspace: Workspace) -> dict[str, str]:
    """Checksums of what has to be the same each time, and the qualities that were measured."""
    found = {}
    for path in sorted(workspace.path("results").rglob("*.*")):
        is_state = ".state" in path.parts or path.name == "state.safetensors"  # it holds seconds
        if path.suffix in SAME_BYTES and not is_state:
            name = path.relative_to(workspace.folder).as_posix()
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        if path.name == "metrics.json":
            numbers = json.loads(path.read_text())
            measured = ("psnr_db", "ssim", "rmse", "wrong", "parameters")
            found[str(path)] = str({key: numbers.get(key) for key in measured})
    return found


def flip(path: Path) -> None:
    """Turn over a bit in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 16
    path.write_bytes(content)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flip_what_is_needed(path: Path) -> None:
    """Flip a bit of a segment's file; without what is kept, the next segment has to read it."""
    flip(path)
    shutil.rmtree(next(folder / ".kept" for folder in path.parents if (folder / ".kept").exists()))


def require_remedies(
    workspace: Workspace, damages: Mapping[str, object], *targets: str, rounds: int = 3
) -> None:
    """Damage files, follow the remedies until there is success, and compare all results.

    Parameters
    ----------
    workspace : Workspace
        A finished one.
    damages : mapping
        For each file a function that damages it, or the file to copy over it.
    *targets : str
        Of the command.
    rounds : int
        Runs that may fail: some jobs only begin when others have succeeded.
    """
    reference = facts(workspace)
    copied = [name for name in damages.values() if isinstance(name, str)]
    contents = {name: workspace.path(name).read_bytes() for name in copied}
    for name, damage in damages.items():
        path = workspace.path(name)
        if callable(damage):
            damage(path)
        else:
            path.write_bytes(contents[str(damage)])
        os.utime(path)
        for folder in path.parents:  # a folder is as new as this file in it
            if (folder / ".snakemake_timestamp").exists():
                os.utime(folder / ".snakemake_timestamp")
    unnamed = set(damages)
    while (done := workspace.run(*targets)).returncode != 0 and (rounds := rounds - 1) >= 0:
        assert "Traceback" not in done.stdout, done.stdout
        named = dict(ERROR.findall(done.stdout))
        assert named, done.stdout
        for where, messages in named.items():
            folder = re.search(r"remove the folder (\S+),", messages)
            innocent = not any(name == where or name.startswith(f"{where}/") for name in unnamed)
            assert not innocent, (where, messages)
            unnamed -= {name for name in unnamed if name == where or name.startswith(f"{where}/")}
            assert "run the same command again" in messages and (
                "remove it" in messages or folder
            ), messages
            if folder:
                shutil.rmtree(workspace.path(folder[1]))
            else:
                workspace.path(where).unlink()
    assert done.returncode == 0, done.stdout
    assert not unnamed, unnamed
    assert facts(workspace) == reference


def test_the_remedies_in_messages_make_everything_as_it_was(small):
    require_remedies(
        small,
        {
            "results/tiny/own/model.safetensors": "results/tiny/seed/model.safetensors",
            f"results/tiny/seed/{SNAPSHOT}": flip,
        },
        *FEW,
    )


@pytest.mark.parametrize(
    "damages",
    [
        {
            "results/tiny/resized.png": cut,
            "results/other/picture.json": flip,
            "results/tiled/own/tiles/0_0/model.safetensors": flip,
            "results/tables/slope/model.safetensors": "results/tables/seed/model.safetensors",
            "results/classifiers/bars/predictions.csv": cut,
        },
        {
            "results/tiny/resized.png": "results/other/resized.png",
            "results/other/picture.json": "results/tiny/picture.json",
            "results/tiled/own/tiles/0_1/model.safetensors": (
                "results/tiled/seed/tiles/0_1/model.safetensors"
            ),
            "results/tables/slope/sizes/4/metrics.json": "results/tables/seed/sizes/4/metrics.json",
            "results/classifiers/bars/model.safetensors": flip,
        },
        {
            "results/tiny/pixels.csv": "results/other/pixels.csv",
            "results/other/own/metrics.json": "results/tiny/own/metrics.json",
            "results/tiled/own/mosaic.json": "results/tiled/seed/mosaic.json",
            f"results/tiled/seed/tiles/0_0/{SNAPSHOT}": f"results/tiled/own/tiles/0_0/{SNAPSHOT}",
            "results/tables/slope/training.json": "results/tables/seed/training.json",
            "results/classifiers/bars/metrics.json": cut,
        },
        {
            "results/tiny/parts/segments/1/state.safetensors": flip_what_is_needed,
            "results/tiny/own/training.json": cut,
            "results/tiny/seed/history.csv": "results/tiny/own/history.csv",
            "results/other/own/comparison/redraw.png": cut,
            "results/tiled/own/checkpoints/step_00000002.json": (
                "results/tiled/own/checkpoints/step_00000007.json"
            ),
            "results/tiled/seed/tiles/0_0/history.csv": "results/tiled/own/tiles/0_0/history.csv",
            "results/tables/slope/history.csv": "results/tables/seed/history.csv",
            # not flipped: a letter of a name that is another would be no damage
            "results/classifiers/bars/training.json": cut,
        },
        {
            f"results/tiny/parts/segments/1/snapshots/{Path(SNAPSHOT).name}": flip_what_is_needed,
            f"results/tiny/own/{SNAPSHOT}": f"results/tiny/seed/{SNAPSHOT}",
            "results/tiled/picture.json": flip,
            "results/other/pixels.csv": cut,
            "results/tables/slope/metrics.json": cut,
            "results/classifiers/bars/history.csv": cut,
        },
        {
            "results/tiled/pixels.npy": cut,
            "results/tiny/own/model.safetensors": f"results/tiny/own/{SNAPSHOT}",
            "results/other/own/model.safetensors": "results/tiny/own/model.safetensors",
        },
        {
            "results/tiled/tiles/0_0/pixels.csv": "results/tiled/tiles/0_1/pixels.csv",
            "results/tiled/own/tiles/0_1/training.json": cut,
        },
    ],
    ids=range(7),
)
def test_every_kind_of_file(large, damages):
    require_remedies(large, damages, *TARGETS)
