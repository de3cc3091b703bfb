"""Fixtures that the tests of the workflow share."""

import copy
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from workspace import SETTINGS, Workspace, without_kernels


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """Return a workspace without results."""
    return Workspace(tmp_path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Return a finished workspace; tests may plan in it, and must restore what they change."""
    workspace = Workspace(tmp_path_factory.mktemp("finished"))
    workspace.settings["fields"]["siren"] = without_kernels()
    workspace.succeed()
    return workspace


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return valid settings, in a folder with the images that they name."""
    monkeypatch.chdir(tmp_path)
    Image.new("L", (300, 200)).save("tiny.png")
    (tmp_path / "model.json").write_text("{}")
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    return copy.deepcopy(SETTINGS)
