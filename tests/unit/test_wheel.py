"""The package installed from its wheel, in an environment with nothing else."""

import os
import re
import shutil
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from clean_install import build_distributions
from paths import ROOT
from PIL import Image
from processes import output_of, run

import neuralfield

UV = [sys.executable, "-m", "uv"]
NOT_NEEDED = ("av", "matplotlib", "pandas", "snakemake", "cupy", "onnx", "torch", "scipy")

FIVE_LINES = """
import neuralfield as nf
field = nf.fit("photo.png", preset="fast", steps=50)
field.render(300, box=(0.2, 0.2, 0.6, 0.6)).save("part.png")
field.save("photo.safetensors")
print(nf.load("photo.safetensors").gradient([[0.0, 0.0]]).shape, field.psnr > 10)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build the wheel and the source distribution from a copy of the project."""
    folder = tmp_path_factory.mktemp("built")
    probe = [*UV, "pip", "install", "--dry-run", "--quiet", "--target", folder / "none"]
    if run([*probe, "setuptools>=77"]).returncode:
        pytest.skip("uv finds no package index: there is no network, or no uv")
    return build_distributions(folder)


@pytest.mark.slow
def test_the_wheel_has_all_files_of_the_package_and_no_others(built):
    wheel, source = built
    assert wheel.name.startswith(f"neuralfield-{neuralfield.__version__}-py3-none-any")
    scripts = Path(neuralfield.__file__).parents[1]
    own = {
        path.relative_to(scripts).as_posix()
        for package in ("neuralfield", "snakemake_logger_plugin_neuralfield")
        for path in (scripts / package).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert sum(name.endswith((".cu", ".cuh")) for name in own) > 20
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == own
    with tarfile.open(source) as archive:
        files = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"scripts/{name}" for name in own} <= files
    assert {"Snakefile", "config.yaml", "workflow/report/report.css", "LICENSE"} <= files


def interpreter(version):
    """Return the path of a Python of this version that starts, or None."""
    if version == "{}.{}".format(*sys.version_info):
        return sys.executable
    of_pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for python in filter(None, [*of_pyenv, shutil.which(f"python{version}")]):
        if not run([python, "-c", ""]).returncode:
            return python
    return None


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_the_wheel_runs_in_a_clean_environment(version, built, tmp_path):
    installed = interpreter(version)
    if installed is None:
        pytest.skip(f"there is no Python {version} on this machine")
    python = tmp_path / "clean/bin/python"
    output_of([*UV, "venv", "--quiet", "--python", installed, tmp_path / "clean"])
    pins = ["--constraint", ROOT / "constraints.txt"]
    output_of([*UV, "pip", "install", "--quiet", "--python", python, *pins, built[0]])
    listed = output_of([*UV, "pip", "list", "--python", python])
    assert not {*NOT_NEEDED} & {line.split()[0] for line in listed.splitlines()}
    with Image.open(ROOT / "workflow/resources/savannah.png") as image:
        image.resize((96, 63)).save(tmp_path / "photo.png")
    in_folder = {"cwd": tmp_path, "env": {"PATH": os.defpath, "HOME": os.fspath(tmp_path)}}
    assert output_of([python, "-c", FIVE_LINES], **in_folder) == "(1, 3, 2) True\n"
    command = tmp_path / "clean/bin/neuralfield"
    assert output_of([command, "--version"], **in_folder) == f"{neuralfield.__version__}\n"
    given = ["photo.png", "--size", "64", "--preset", "fast", "--steps", "3", "--train-size", "32"]
    assert "photo_64.png: 64 x 42 pixels" in output_of([command, *given], **in_folder)


def test_extras_are_those_that_pages_name():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"workflow", "cuda12", "cuda13", "onnx"} <= {*project["optional-dependencies"]}
    bare = {re.split(r"[<>=;\[ ]", line)[0] for line in project["dependencies"]}
    assert not bare & {*NOT_NEEDED}
