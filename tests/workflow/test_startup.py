"""Set-up chooses the right packages, and a missing one is named."""

import importlib.util
import subprocess
import sys

import pytest
from processes import output_of, run
from workspace import ROOT, Workspace, clean_environment

spec = importlib.util.spec_from_file_location("install", ROOT / ".ci" / "install.py")
assert spec and spec.loader
install = importlib.util.module_from_spec(spec)
spec.loader.exec_module(install)

WITHOUT_PILLOW = """
import importlib.abc, runpy, sys

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, *others):
        if name == "PIL":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
runpy.run_module("snakemake", run_name="__main__", alter_sys=True)
"""


def test_a_missing_package_is_named(workspace: Workspace):
    command = [sys.executable, "-c", WITHOUT_PILLOW, *workspace.command("-n")[3:]]
    done = run(command, cwd=workspace.folder, env=clean_environment(), stderr=subprocess.STDOUT)
    assert done.returncode == 1
    assert "no PIL; expected NumPy and Pillow" in done.stdout
    assert "Traceback" not in done.stdout


def test_requirements_are_those_of_the_project():
    wanted = install.requirements(["test"])
    assert any(line.startswith("snakemake>=") for line in wanted)
    assert any(line.startswith("pytest>=") for line in wanted)
    assert not any(line.startswith("cupy") for line in wanted)


@pytest.mark.parametrize(
    ("version", "extra"),
    [(0, ""), (11080, ""), (12090, "cuda12"), (13010, "cuda13"), (14000, "cuda13")],
)
def test_cupy_is_chosen_by_the_driver(version, extra):
    assert install.extra_for_driver(version) == extra


def test_constraints_are_exact():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert all("==" in pin for pin in pins)
    names = {pin.split("==")[0] for pin in pins}
    wanted = {line.split(">=")[0].split("[")[0] for line in install.requirements(["test", "slurm"])}
    assert wanted <= names


def test_set_up_finds_a_pip_without_installing_one(tmp_path):
    environment = tmp_path / "venv"
    output_of([sys.executable, "-m", "venv", "--without-pip", environment])
    code = "import runpy, subprocess, sys; i = runpy.run_path(sys.argv[1]);"
    code += "print(subprocess.run([*i['pip_command'](), '--version']).returncode)"
    command = [environment / "bin" / "python", "-c", code, ROOT / ".ci" / "install.py"]
    written = output_of(command)
    assert written.startswith("pip ") and written.endswith("\n0\n")


def test_set_up_keeps_what_the_workflow_imports_compiled(tmp_path, monkeypatch):
    (tmp_path / "imported_by_jobs.py").write_text("x = 1\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    monkeypatch.setattr(install, "IMPORTED", ("imported_by_jobs",))
    install.keep_bytecode()
    assert list(tmp_path.glob("__pycache__/imported_by_jobs.*.pyc"))
