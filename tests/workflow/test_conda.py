"""`--sdm conda`: every job has an environment, and each has all packages that its jobs import.

conda itself is not needed: a stand-in answers Snakemake's calls.
"""

import re
import sys
import tomllib

import pytest
import yaml
from processes import output_of
from stand_in_conda import install_stand_in_conda
from workspace import ROOT, Workspace

import neuralfield

ENVIRONMENTS = sorted((ROOT / "workflow/envs").glob("*.yaml"))


def bounds_of(lines):
    """Return the lowest version of each package, by its name."""
    found = (re.match(r"([\w-]+)(?:\[\w+\])? ?>=([\d.]+)", line) for line in lines)
    return {match[1].lower(): match[2] for match in found if match}


@pytest.mark.parametrize("path", ENVIRONMENTS, ids=lambda path: path.stem)
def test_versions_are_those_of_the_project(path):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = project["dependencies"] + project["optional-dependencies"]["workflow"]
    wanted = bounds_of([*wanted, f"python{project['requires-python']}"])
    listed = bounds_of(yaml.safe_load(path.read_text(encoding="utf-8"))["dependencies"])
    assert listed.items() <= wanted.items()


@pytest.fixture
def with_conda(tmp_path, monkeypatch):
    """Return a workspace whose commands use the stand-in for conda."""
    monkeypatch.setenv("PATH", install_stand_in_conda(tmp_path / "conda"))
    (tmp_path / "work").mkdir()
    return Workspace(tmp_path / "work")


NOT_THERE = """
import importlib.util, sys
names = ("av", "matplotlib", "numba", "pandas", "pyvips", "safetensors", "threadpoolctl", "tqdm")
for name in names:
    sys.modules[name] = None
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *others: None if name in sys.modules and \\
    sys.modules[name] is None else find(name, *others)
from snakemake.cli import main
main()
"""
"""Code that runs Snakemake without the packages that only jobs need."""


def test_environments_are_planned_where_only_they_have_the_packages_of_jobs(with_conda):
    _, _, _, *arguments = with_conda.command("--dry-run", "--sdm", "conda", "--verbose")
    done = with_conda.run_command([sys.executable, "-c", NOT_THERE, *arguments])
    planned = done.stdout
    assert done.returncode == 0, planned
    for path in ENVIRONMENTS:
        assert re.search(rf"environment \S*{path.name} will be created", planned)


@pytest.mark.slow
def test_all_jobs_run_with_the_packages_of_their_environments(with_conda, bare_python):
    with_conda.add_table()
    with_conda.add_classifier()
    images, settings = with_conda.settings["images"], with_conda.settings
    settings["fields"]["small"] = {"type": "latents"}
    images["tiny"]["fields"] = ["siren", "plain", "small"]
    images["tiled"] = {"fields": ["siren"], "path": "tiny.png", "tiles": {"size": 16, "overlap": 4}}
    seeds = {"fields": ["siren"], "images": ["tiny"], "vary": {"random_seed": [0, 1]}, "batch": 2}
    settings["sweeps"] = {"seeds": seeds}
    targets = ("all", "tables", "classifiers", "edges", "results/tiny/decoded.png")
    _, *arguments = with_conda.command(*targets, "--sdm", "conda")
    done = with_conda.run_command([bare_python, *arguments])
    assert done.returncode == 0, done.stdout


def test_the_container_has_these_environments(with_conda):
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")]
    image = output_of([*command, "--containerize"], cwd=ROOT)
    assert (ROOT / "Dockerfile").read_text() == image, "write it by `snakemake --containerize`"
    snakefile = (ROOT / "workflow/Snakefile").read_text()
    assert re.findall(r'^containerized: ".*:(.*)"', snakefile, re.M) == [neuralfield.__version__]
