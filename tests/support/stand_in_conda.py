#!/usr/bin/env python3
"""A stand-in for conda that answers Snakemake's calls and installs packages from PyPI with uv."""

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml

FOLDER = Path(__file__).resolve().parent
PYPI = {"pyvips": "pyvips[binary]"}
"""Packages that have another name on PyPI, or that need an extra to include their libraries."""


def main(arguments: list[str]) -> None:
    """Answer one call of Snakemake."""
    if arguments == ["--version"]:
        print("conda 25.1.1")
    elif arguments[:1] == ["info"]:
        prefix = os.fspath(FOLDER)
        print(json.dumps({"conda_prefix": prefix, "root_prefix": prefix, "platform": "linux-64"}))
    elif arguments[:1] == ["config"]:
        print(json.dumps({"get": {"channel_priority": "strict"}}))
    elif arguments[:2] == ["env", "create"]:
        create(Path(value_of("--file", arguments)), value_of("--prefix", arguments))
    elif arguments[:1] != ["clean"]:
        sys.exit(f"unknown: {arguments}")


def value_of(name: str, arguments: list[str]) -> str:
    return arguments[arguments.index(name) + 1]


def create(file: Path, prefix: str) -> None:
    """Create an environment with the packages that a file lists."""
    lines = yaml.safe_load(file.read_text())["dependencies"]
    packages = {name: bounds for name, _, bounds in (line.partition(" ") for line in lines)}
    del packages["python"]
    uv, pins = [sys.executable, "-m", "uv"], os.environ["STAND_IN_CONSTRAINTS"]
    subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, prefix], check=True)
    wanted = [f"{PYPI.get(name, name)}{bounds}" for name, bounds in packages.items()]
    install = [*uv, "pip", "install", "--quiet", "--python", f"{prefix}/bin/python"]
    subprocess.run([*install, "--constraint", pins, *wanted], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
