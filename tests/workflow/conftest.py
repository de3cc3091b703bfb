"""Fixtures that the tests of the workflow share."""

import copy
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from processes import run
from stand_in_conda import install
from workspace import ROOT, SETTINGS, Workspace, without_kernels


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


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a Python with Snakemake, and with nothing else but what it needs beside conda."""
    folder = tmp_path_factory.mktemp("bare")
    probe = ["pip", "install", "--dry-run", "--quiet", "--target", folder / "none", "snakemake"]
    if run([sys.executable, "-m", "uv", *probe]).returncode:
        pytest.skip("uv finds no package index: there is no network, or no uv")
    pins = ["--constraint", str(ROOT / "constraints.txt")]
    install(folder / "bare", "snakemake", "numpy", "pillow", "pyvips[binary]", *pins)
    return str(folder / "bare/bin/python")


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return valid settings, in a folder with the images that they name."""
    monkeypatch.chdir(tmp_path)
    Image.new("L", (300, 200)).save("tiny.png")
    (tmp_path / "model.json").write_text("{}")
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    return copy.deepcopy(SETTINGS)
