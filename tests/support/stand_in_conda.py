#!/usr/bin/env python3
"""A stand-in for conda that creates environments with the same packages from PyPI, by uv."""

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml

PREFIX = os.fspath(Path(__file__).resolve().parents[1])

ANSWERS = {
    "--version": "conda 25.1.1",
    "info": json.dumps({"conda_prefix": PREFIX, "root_prefix": PREFIX, "platform": "linux-64"}),
    "config": json.dumps({"get": {"channel_priority": "strict"}}),
    "clean": "",
}

NAMES_ON_PYPI = {"pyvips": "pyvips[binary]"}


def create_environment(file: Path, prefix: str) -> None:
    """Create an environment with the packages of an environment file."""
    listed = (line.split() for line in yaml.safe_load(file.read_text())["dependencies"])
    install(prefix, *(f"{NAMES_ON_PYPI.get(name, name)}{''.join(rest)}" for name, *rest in listed))


def install(prefix: str | Path, *packages: str) -> None:
    """Create an environment with this Python and some packages."""
    uv = [sys.executable, "-m", "uv"]
    subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, prefix], check=True)
    to_python = [*uv, "pip", "install", "--quiet", "--python", f"{prefix}/bin/python"]
    subprocess.run([*to_python, *(p for p in packages if not p.startswith("python>"))], check=True)


def install_stand_in_conda(folder: Path) -> str:
    """Install this program as `conda` in a folder, and return a PATH on which it is found."""
    programs = folder / "bin"
    programs.mkdir(parents=True)
    text = Path(__file__).read_text(encoding="utf-8").partition("\n")[2]
    (programs / "conda").write_text(f"#!{sys.executable}\n{text}")
    (programs / "conda").chmod(0o755)
    (programs / "activate").write_text('export PATH="$1/bin:$PATH"\n')
    return f"{programs}{os.pathsep}{os.environ['PATH']}"


if __name__ == "__main__":
    if sys.argv[1:3] == ["env", "create"]:
        options = sys.argv[3:]
        place = options[options.index("--prefix") + 1]
        create_environment(Path(options[options.index("--file") + 1]), place)
    else:
        print(ANSWERS[sys.argv[1]])
