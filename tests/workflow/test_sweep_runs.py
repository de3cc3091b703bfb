"""A sweep in the real workflow: the files that it makes, and those remade for another value."""

import csv
import os

import pytest
from workspace import Workspace, without_kernels

pytestmark = pytest.mark.slow

NAMES = [f"siren+width={width}+random_seed={seed}" for width in (4, 6) for seed in (0, 1)]


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Return a workspace with only a finished sweep: two images, two widths, two seeds."""
    workspace = Workspace(tmp_path_factory.mktemp("swept"))
    workspace.draw("noise.png", seed=1)
    workspace.settings["images"] = {
        "tiny": {"path": "tiny.png", "size": 16, "fields": []},
        "noise": {"path": "noise.png", "size": [16, 11], "fields": []},
    }
    workspace.settings["fields"] = {"siren": without_kernels()}
    workspace.settings["training"] |= {"steps": 3}
    workspace.settings["sweeps"] = {
        "widths": {"fields": ["siren"], "vary": {"width": [4, 6], "random_seed": [0, 1]}}
    }
    messages = workspace.succeed()
    assert "Sweep widths: 8 runs of 4 networks." in messages
    return workspace


@pytest.fixture(autouse=True)
def keep_settings(swept: Workspace):
    """Restore the settings that a test changes."""
    with swept.settings_kept():
        yield


def table(workspace: Workspace, name: str) -> list[dict[str, str]]:
    with workspace.path(f"results/{name}.csv").open() as file:
        return list(csv.DictReader(file))


def models(workspace: Workspace) -> dict[str, tuple[int, bytes]]:
    return {
        os.fspath(path.parent): (path.stat().st_mtime_ns, path.read_bytes())
        for path in workspace.folder.glob("results/*/*/model.safetensors")
    }


def test_each_combination_has_a_folder_that_says_what_it_is(swept):
    assert [(row["image"], row["field"]) for row in table(swept, "summary")] == [
        (image, name) for image in ("tiny", "noise") for name in NAMES
    ]
    for name in NAMES:
        made = {path.name for path in swept.path(f"results/tiny/{name}").iterdir()}
        assert {"model.safetensors", "metrics.json", "comparison"} <= made
        assert not [file for file in made if file.startswith(("render", "timelapse"))]
    assert len({content for _, content in models(swept).values()}) == 8


def test_the_tables_compare_them(swept):
    rows = [row for row in table(swept, "summary") if row["setting_width"] == "6"]
    (six,) = [row for row in table(swept, "comparison") if row["setting_width"] == "6"]
    assert (six["combination"], six["images"], six["runs"]) == ("siren+width=6", "2", "4")
    mean_db = sum(float(row["psnr_db"]) for row in rows) / 4
    assert float(six["psnr_db_mean"]) == pytest.approx(mean_db)
    assert len(table(swept, "comparison_by_image")) == 4


def test_the_order_of_the_lists_changes_no_network(swept):
    swept.settings["sweeps"]["widths"]["vary"] = {"training.random_seed": [1, 0], "width": [6, 4]}
    assert set(swept.planned()) <= {"summarize", "compare", "report"}


def test_redraws_and_timelapses_are_made_where_asked_for(swept):
    swept.settings["sweeps"]["widths"] |= {"render": True, "timelapse": True}
    assert swept.planned() == {"render": 8, "timelapse": 8, "view": 8, "report": 1}


def test_another_seed_runs_only_what_is_new(swept):
    before = models(swept)
    swept.settings["sweeps"]["widths"]["vary"]["random_seed"] = [0, 1, 2]
    again = {"summarize": 1, "compare": 1, "report": 1}
    assert swept.planned() == {"train": 4, "evaluate": 4, **again}
    swept.succeed()
    after = models(swept)
    assert len(after) == 12
    assert {name: after[name] for name in before} == before
    assert {row["runs"] for row in table(swept, "comparison")} == {"6"}
    assert swept.planned() == {}
