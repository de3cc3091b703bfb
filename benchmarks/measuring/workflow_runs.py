"""Runs of the workflow in folders of their own, for benchmarks that time all of Snakemake."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import yaml

from measuring import ROOT

_LOG_NAME = "snakemake.txt"
_LAST_CHARACTERS = 2000
_SECONDS_BETWEEN_LOOKS = 0.05


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
    return run_apart(folder, *options)[0]


def run_apart(folder: Path, *options: str) -> tuple[float, float]:
    """Run Snakemake like `run_workflow`, and also return the seconds in which no job ran."""
    command = [sys.executable, "-m", "snakemake", "--snakefile", os.fspath(ROOT / "Snakefile")]
    log = folder / _LOG_NAME
    started_s = time.perf_counter()
    with log.open("w") as file:
        snakemake = psutil.Popen([*command, *options], cwd=folder, stdout=file, stderr=file)
        alone_s, seen_s = 0.0, started_s
        while snakemake.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired, psutil.TimeoutExpired):
                snakemake.wait(_SECONDS_BETWEEN_LOOKS)
            with contextlib.suppress(psutil.NoSuchProcess):
                before_s, seen_s = seen_s, time.perf_counter()
                alone_s += 0 if snakemake.children() else seen_s - before_s
    if snakemake.returncode:
        raise SystemExit(f"Snakemake failed in {folder}:\n{log.read_text()[-_LAST_CHARACTERS:]}")
    return time.perf_counter() - started_s, alone_s
