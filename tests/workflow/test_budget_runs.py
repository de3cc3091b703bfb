"""Whole runs with a budget: they end with a render, and repeating them gives the same bytes."""

import json
import os
import re
import shutil
import signal

import pytest
from processes import wait_until
from workspace import Workspace, without_kernels

MODEL = "results/tiny/siren/model.safetensors"


def test_a_budget_ends_with_a_render(workspace: Workspace):
    workspace.settings["fields"]["siren"] = without_kernels()
    render = "results/tiny/siren/render_8.png"
    messages = workspace.succeed(render, "--config", "budget=1")
    assert re.search(r"tiny\W+siren: about 1 s: [\d,]+ steps of 176 pixels", messages)
    found = json.loads(workspace.path("results/tiny/siren/budget.json").read_text())
    record = json.loads(workspace.path("results/tiny/siren/training.json").read_text())
    assert record["steps"] == found["training"]["steps"] >= 32
    assert workspace.path(render).exists()


@pytest.mark.slow
def test_a_kill_and_explicit_settings_end_with_the_same_bytes(workspace: Workspace):
    images, budget = workspace.settings["images"], ("--config", "budget=3")
    images["same"] = images["tiny"]
    process = workspace.start(MODEL, *budget)
    written = workspace.path("results/tiny/siren/budget.json")
    wait_until(written.exists, process)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = written.read_text()
    workspace.unlock()
    workspace.succeed(MODEL, *budget)
    assert written.read_text() == before
    killed = workspace.path(MODEL).read_bytes()
    shutil.rmtree(written.with_name(".kept"))
    forced = workspace.succeed(MODEL, *budget, "--forcerun", "train")
    assert "budget.json (about" in forced
    assert workspace.path(MODEL).read_bytes() == killed
    settings = json.dumps(json.loads(before)["training"]).replace('"', "")
    same = MODEL.replace("tiny", "same")
    workspace.succeed(same, "--config", f"training={settings}")
    assert workspace.path(same).read_bytes() == killed


@pytest.mark.slow
def test_tiles_share_the_steps(workspace: Workspace):
    workspace.settings["images"]["tiny"] = {"path": "tiny.png", "tiles": {"size": 16}}
    del workspace.settings["fields"]["plain"]
    files = ("metrics.json", "timelapse.gif", "render_8.png")
    targets = [f"results/tiny/siren/{name}" for name in files]
    workspace.succeed(*targets, "--config", "budget=3")
    steps = json.loads(workspace.path("results/tiny/siren/budget.json").read_text())["training"]
    tiles = list(workspace.folder.glob("results/tiny/siren/tiles/*/training.json"))
    assert len(tiles) > 1 and not list(workspace.folder.glob("results/tiny/siren/tiles/*/budget*"))
    for path in (*tiles, workspace.path("results/tiny/siren/training.json")):
        assert json.loads(path.read_text())["found_for_budget"] == steps
    assert workspace.planned(*targets, "--config", "budget=3") == {}
