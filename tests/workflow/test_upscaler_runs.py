"""An upscaler among the networks: the same files, numbers and entry in the report; no tiles."""

import json

import pytest
from PIL import Image
from workspace import Workspace, without_kernels

from config.configuration import Problems, read_settings


@pytest.mark.slow
def test_an_upscaler_is_trained_rendered_and_compared(workspace: Workspace):
    upscaler = {"type": "upscaler", "hidden_layers": 1, "channels": 4, "crop": 8}
    workspace.settings["fields"] = {"siren": without_kernels(), "up": upscaler}
    workspace.settings["render"] = {"sizes": [40]}
    workspace.settings["timelapse"]["formats"] = ["gif"]
    workspace.succeed()
    results = workspace.path("results/tiny/up")
    with Image.open(results / "render_40.png") as rendered:
        assert rendered.size == (40, 28)
    with Image.open(results / "timelapse.gif") as timelapse:
        assert timelapse.size[0] == 16
    found = json.loads((results / "metrics.json").read_text())
    assert found["psnr_db"] == 200 and found["engine"] == "tape" and found["steps"] == 20
    assert 5 < found["upscale_psnr_db"] < 60
    rows = workspace.path("results/summary.csv").read_text().splitlines()
    assert len(rows) == 3 and any(row.startswith("tiny,up,") for row in rows)
    page = workspace.path("results/report.html").read_text()
    assert "Convolutions trained to enlarge this image" in page
    assert workspace.planned() == {}


def test_tiles_cannot_have_one(workspace: Workspace, monkeypatch):
    monkeypatch.chdir(workspace.folder)
    workspace.settings["fields"] = {"up": {"type": "upscaler"}}
    workspace.settings["images"]["tiny"] = {"path": "tiny.png", "tiles": {"size": 16}}
    with pytest.raises(
        Problems, match="'up' is an upscaler; expected only fields that are trained"
    ):
        read_settings(workspace.settings, lambda place: "config.yaml")
