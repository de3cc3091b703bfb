"""Following the remedies in error messages restores everything with the same bytes."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from check import check
from workspace import Workspace, without_kernels

pytestmark = pytest.mark.slow

SAME_BYTES = (".safetensors", ".png", ".gif", ".npy")
ERROR = re.compile(r"^\w+(?: [^/\s]\S*)*: (results/[^:]+): (.+)$", re.MULTILINE)
SNAPSHOT = "checkpoints/step_00000002.safetensors"
PRODUCTS = ("checkpoints", "metrics.json", "render_8.png", "timelapse.gif", "view.html")
"""Files of a network that together need each of its jobs: the training and its consumers."""

TILES = ("0_0", "0_1")
ALWAYS = [
    *(f"results/{image}/pixels.csv" for image in ("tiny", "other")),
    *(f"results/tiled/own/tiles/{tile}.json" for tile in TILES),
]
"""Targets of every command, because jobs that fail lose these files."""

TARGETS = ("all", "edges", "tables", "classifiers")
SLOPE, BARS = "results/tables/slope", "results/classifiers/bars"


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Workspace:
    """Return a workspace with tiles, edges, two networks of a table and a classifier."""
    workspace = Workspace(tmp_path_factory.mktemp("large"))
    adopt_large_settings(workspace)
    workspace.succeed(*TARGETS)
    return workspace


def adopt_large_settings(workspace: Workspace) -> None:
    fields = {"own": without_kernels(), "seed": without_kernels(random_seed=1)}
    workspace.settings["fields"] = fields
    workspace.settings["timelapse"] |= {"formats": ["gif"]}
    workspace.draw("other.png", seed=1)
    tiles = {"size": 16, "overlap": 4}
    workspace.settings["images"] |= {
        "other": {"path": "other.png", "size": 16, "fields": ["own"]},
        "tiled": {"path": "other.png", "tiles": tiles, "fields": ["own", "seed"]},
    }
    workspace.add_table()
    table = workspace.settings["tables"]["slope"] | {"sizes": [[4]]}
    workspace.settings["tables"] |= {"slope": table, "seed": table | {"training": {"steps": 30}}}
    workspace.add_classifier()


def made_of(*networks: str) -> list[str]:
    return [f"results/{network}/{name}" for network in networks for name in PRODUCTS]


def facts(workspace: Workspace) -> dict[str, str]:
    """Return checksums of files that must be the same each time, and the measured qualities."""
    found = {}
    for path in sorted(workspace.path("results").rglob("*.*")):
        is_state = ".state" in path.parts or path.name == "state.safetensors"  # it contains times
        if path.suffix in SAME_BYTES and not is_state:
            name = path.relative_to(workspace.folder).as_posix()
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        if path.name == "metrics.json":
            numbers = json.loads(path.read_text())
            measured = ("psnr_db", "ssim", "rmse", "wrong", "parameters")
            found[str(path)] = str({key: numbers.get(key) for key in measured})
    return found


def flip(path: Path) -> None:
    """Flip a bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 16
    path.write_bytes(content)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def require_remedies(
    workspace: Workspace, damages: Mapping[str, object], *targets: str, rounds: int = 3
) -> None:
    """Damage files, follow the remedies until a run succeeds, and compare all results.

    Parameters
    ----------
    workspace : Workspace
        A workspace with all results.
    damages : mapping
        Maps files below results/ to functions that damage them, or to files to copy over them.
    *targets : str
        Targets of the command in addition to the damaged files and the folders made as a whole.
    rounds : int
        Maximum number of runs that fail: some jobs only start after others have succeeded.
    """
    reference = facts(workspace)
    results = workspace.path("results")
    copied = [name for name in damages.values() if isinstance(name, str)]
    contents = {name: (results / name).read_bytes() for name in copied}
    for name, damage in damages.items():
        path = results / name
        if callable(damage):
            damage(path)
        else:
            path.write_bytes(contents[str(damage)])
        os.utime(path)
        for folder in path.parents:  # a folder's time is that of its newest file
            if (folder / ".snakemake_timestamp").exists():
                os.utime(folder / ".snakemake_timestamp")
    unnamed = {f"results/{name}" for name in damages}
    folders = r"(/checkpoints|/comparison)/.*"
    outputs = {re.sub(r"(/tiles/\d+_\d+)/.*", r"\1.json", name) for name in unnamed}
    targets += (*ALWAYS, *{re.sub(folders, r"\1", name) for name in outputs})
    while (done := workspace.run(*targets)).returncode != 0 and (rounds := rounds - 1) >= 0:
        assert "Traceback" not in done.stdout, done.stdout
        named = dict(ERROR.findall(done.stdout))
        assert named, done.stdout
        wrong = set(unnamed)
        for where, messages in named.items():
            folder = re.search(r"remove the folder (\S+),", messages)
            lists = re.search(r"remove the lists (\S+),", messages)
            # snapshots that do not fit a wrong network may be named beside it
            snapshots = Path(where).parent.with_name("model.safetensors")
            guilty = any(
                name in (where, str(snapshots)) or name.startswith(f"{where}/") for name in wrong
            )
            assert guilty, (where, messages)
            unnamed -= {name for name in unnamed if name == where or name.startswith(f"{where}/")}
            assert "run the same command again" in messages and (
                "remove it" in messages or folder or lists
            ), messages
            if folder:
                shutil.rmtree(workspace.path(folder[1]))
            elif lists:
                for path in workspace.folder.glob(lists[1]):
                    path.unlink()
            else:
                workspace.path(where).unlink()
    assert done.returncode == 0, done.stdout
    checked = check(results)  # files of tiles, which Snakemake does not know
    unnamed -= {str(Path(error.where).relative_to(workspace.folder)) for error in checked.findings}
    assert not unnamed, unnamed
    if checked.to_make:
        workspace.succeed(*targets, "--forcerun", *checked.to_make)
    assert not check(results).findings
    assert facts(workspace) == reference


@pytest.mark.parametrize(
    ("targets", "damages"),
    [
        (
            (
                *made_of("tiny/own", "other/own", "tiled/own"),
                f"{SLOPE}/metrics.json",
                f"{BARS}/curve.png",
            ),
            {
                "tiny/resized.png": cut,
                "other/picture.json": flip,
                "tiled/own/tiles/0_0/model.safetensors": flip,
                "tables/slope/model.safetensors": "tables/seed/model.safetensors",
                "classifiers/bars/predictions.csv": cut,
            },
        ),
        (
            (
                *made_of("tiny/own", "other/own", "tiled/own", "tiled/seed"),
                "results/summary.csv",
                f"{SLOPE}/metrics.json",
                f"{BARS}/curve.png",
            ),
            {
                "tiny/pixels.csv": "other/pixels.csv",
                "other/own/metrics.json": "tiny/own/metrics.json",
                "tiled/own/mosaic.json": "tiled/seed/mosaic.json",
                f"tiled/seed/tiles/0_0/{SNAPSHOT}": f"tiled/own/tiles/0_0/{SNAPSHOT}",
                "tables/slope/training.json": "tables/seed/training.json",
                "classifiers/bars/metrics.json": cut,
            },
        ),
        (
            TARGETS,
            {
                "tiny/own/training.json": cut,
                "tiny/seed/history.csv": "tiny/own/history.csv",
                "other/own/comparison/redraw.png": cut,
                "tiled/own/checkpoints/step_00000002.json": (
                    "tiled/own/checkpoints/step_00000007.json"
                ),
                "tiled/seed/tiles/0_0/history.csv": "tiled/own/tiles/0_0/history.csv",
                "tables/slope/history.csv": "tables/seed/history.csv",
                # truncated: a flipped bit might only change a letter of a name, which is no damage
                "classifiers/bars/training.json": cut,
            },
        ),
        (
            (
                *made_of("tiny/own", "tiled/own", "other/own"),
                "tables",
                f"{BARS}/curve.png",
            ),
            {
                f"tiny/own/{SNAPSHOT}": f"tiny/seed/{SNAPSHOT}",
                "tiled/picture.json": flip,
                "other/pixels.csv": cut,
                "tables/slope/metrics.json": cut,
                "classifiers/bars/history.csv": cut,
            },
        ),
        (
            made_of("tiny/own", "other/own", "tiled/own"),
            {
                "tiled/pixels.npy": cut,
                "tiny/own/model.safetensors": f"tiny/own/{SNAPSHOT}",
                "other/own/model.safetensors": "tiny/own/model.safetensors",
            },
        ),
    ],
    ids=range(5),
)
def test_every_kind_of_file(large, targets, damages):
    require_remedies(large, damages, *targets)
