"""The README's commands, run as written on a tiny config, and its links."""

import os
import sys
from pathlib import Path

import pytest
from PIL import Image
from processes import output_of
from snippets import snippets
from workspace import ROOT, Workspace, clean_environment

COMMANDS = [
    line.split("#")[0].strip()
    for snippet in snippets("README.md", "sh")
    for line in snippet.text.splitlines()
]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Create a folder like a checkout, but with a tiny image, tiny networks and a photo."""
    for name in ("Snakefile", "Makefile", "workflow", "scripts", "profiles"):
        (tmp_path / name).symlink_to(ROOT / name)
    workspace = Workspace(tmp_path)
    del workspace.settings["fields"]["plain"]
    workspace.settings["timelapse"]["formats"] = ["mp4"]
    workspace.command()  # writes config.yaml
    Image.effect_noise((40, 30), 60).convert("RGB").save(tmp_path / "photo.jpg")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("snakemake")])
def test_command_works_as_written(command: str, checkout: Path):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    output_of(command, shell=True, cwd=checkout, env=clean_environment() | {"PATH": path})
    assert (checkout / "results/report.html").exists()
    assert (checkout / "results/photo/siren/render_8.png").exists()


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("make")])
def test_make_knows_its_targets(command: str):
    output_of([*command.split(), "--dry-run"], cwd=ROOT)
