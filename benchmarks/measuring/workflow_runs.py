"""Runs of the workflow in folders of their own, for benchmarks that time all of Snakemake."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from measuring import ROOT

_LOG_NAME = "snakemake.txt"
_LAST_CHARACTERS = 2000


def write_config(folder: Path, settings: dict[str, Any]) -> None:
    """Write a folder's config.yaml."""
    (folder / "config.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))


def run_workflow(folder: Path, *options: str) -> float:
    """Run Snakemake in a folder, with its output in a file there, and return its seconds.

    Raises
    ------
    SystemExit
        If Snakemake fails; the message is the end of its output.
    """
    command = [sys.executable, "-m", "snakemake", "--snakefile", os.fspath(ROOT / "Snakefile")]
    log = folder / _LOG_NAME
    started_s = time.perf_counter()
    with log.open("w") as file:
        done = subprocess.run(
            [*command, *options], cwd=folder, stdout=file, stderr=file, check=False
        )
    if done.returncode:
        raise SystemExit(f"Snakemake failed in {folder}:\n{log.read_text()[-_LAST_CHARACTERS:]}")
    return time.perf_counter() - started_s
