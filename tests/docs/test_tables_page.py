"""docs/tables.md: its example runs as written."""

import math
import os
import re
import sys

import pytest
import yaml
from processes import output_of
from workspace import ROOT, Workspace, clean_environment

PAGE = (ROOT / "docs/tables.md").read_text()
EXAMPLE = PAGE.split("## A table of your own in one minute")[1].split("\n## ")[0]


def blocks(language: str, text: str = EXAMPLE) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.mark.slow
def test_the_example_works_as_written(tmp_path):
    for name in ("Snakefile", "workflow", "scripts", "profiles"):
        (tmp_path / name).symlink_to(ROOT / name)
    workspace = Workspace(tmp_path)
    (own,) = blocks("yaml")
    workspace.settings |= yaml.safe_load(own)
    workspace.command()  # writes config.yaml
    path = f"{os.fspath(os.path.dirname(sys.executable))}{os.pathsep}{os.environ['PATH']}"  # noqa: PTH120
    environment = clean_environment() | {"PATH": path}
    for command in blocks("sh"):
        output_of(command, shell=True, cwd=tmp_path, env=environment)
    folder = tmp_path / "results/tables/tides"
    for name in re.findall(r"^\| `([\w.]+)`", EXAMPLE, re.MULTILINE):
        assert (folder / name).exists(), name
    (program,) = blocks("python")
    environment |= {"PYTHONPATH": str(ROOT / "scripts")}
    written = output_of([sys.executable, "-c", program], cwd=tmp_path, env=environment)
    answers = [float(text) for text in re.findall(r"-?\d+\.\d+", written)]
    tide_m = [2 + 1.3 * math.sin(2 * hour / 3.95) for hour in (3.25, 12.8)]
    assert answers == pytest.approx(tide_m, abs=0.1)
