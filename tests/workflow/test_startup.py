"""Locks that no process holds are removed, others stay; set-up chooses the right packages."""

import importlib.util
import subprocess
import sys

import pytest
from processes import output_of
from workspace import ROOT

from jobs import startup

spec = importlib.util.spec_from_file_location("install", ROOT / ".ci" / "install.py")
assert spec and spec.loader
install = importlib.util.module_from_spec(spec)
spec.loader.exec_module(install)

HOLD = """
import sys, pathlib
sys.path[:0] = sys.argv[1:3]
from jobs import startup
owner, cleared = startup.clear_stale_locks(pathlib.Path(sys.argv[3]))
print("ready", cleared, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "locks").mkdir()
    return tmp_path


def leave_lock(folder):
    lock = folder / "locks" / "0.output.lock"
    lock.write_text("results/report.html\n")
    return lock


def another_snakemake(folder):
    paths = [str(ROOT / "workflow"), str(ROOT / "scripts"), str(folder)]
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, *paths],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout and process.stdout.readline() == "ready False\n"
    return process


def test_locks_of_a_killed_run_are_removed(folder):
    another = another_snakemake(folder)
    lock = leave_lock(folder)
    another.kill()
    another.wait()
    _owner, cleared = startup.clear_stale_locks(folder)
    assert cleared and not lock.exists()


def test_locks_of_a_live_run_stay(folder):
    another = another_snakemake(folder)
    lock = leave_lock(folder)
    _owner, cleared = startup.clear_stale_locks(folder)
    assert not cleared and lock.exists()
    another.communicate("")


def test_locks_that_may_be_another_machines_stay(folder):
    lock = leave_lock(folder)
    (folder / "neuralfield.owner").write_text("elsewhere")
    owner, cleared = startup.clear_stale_locks(folder)
    assert not cleared and lock.exists()
    assert owner and (folder / "neuralfield.owner").read_text() == "elsewhere"


def test_programs_that_are_started_do_not_keep_the_lock(folder):
    owner, _ = startup.clear_stale_locks(folder)
    assert owner
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, text=True)
    owner.close()
    leave_lock(folder)
    _owner, cleared = startup.clear_stale_locks(folder)
    assert cleared
    child.communicate("\n")


def test_missing_packages(monkeypatch):
    startup.require_packages()
    monkeypatch.setitem(startup.PACKAGES, "no_such_module", "some-package")
    with pytest.raises(startup.UserError, match="no some-package; expected all packages of"):
        startup.require_packages()
    startup.require_packages(has_conda=True)


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


def test_snakemake_is_left_to_compare_params_without_pandas(monkeypatch):
    monkeypatch.delitem(sys.modules, "pandas", raising=False)
    assert importlib.util.find_spec("pandas")
    startup.leave_out_pandas()
    try:
        assert importlib.util.find_spec("pandas") is None
    finally:
        del sys.modules["pandas"]
