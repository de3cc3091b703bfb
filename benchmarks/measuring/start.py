"""Part `start`: the time from the start of a process to its first training step."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from measuring.context import Context
from measuring.ours import Ours, systems

_WARM_STARTS = 3
_SCRIPT = Path(__file__).resolve().with_name("first_step.py")


def measure_start(context: Context) -> None:
    """Measure the seconds from a process's start to its first step, with caches empty and full."""
    for ours in systems(context.device):
        measure = partial(_start, ours, context)
        context.report.attempt(
            "start", "siren 3x256, 200x200 grey", ours.name, context.deadline, measure
        )
    context.report.add_table("start", "cold_s", "seconds to the first step, empty kernel cache")
    context.report.add_table("start", "warm_s", "seconds to the first step, full kernel cache")


def _start(ours: Ours, context: Context) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        # the driver has a cache of its own
        caches = {"CUPY_CACHE_DIR": f"{folder}/cupy", "CUDA_CACHE_PATH": f"{folder}/driver"}
        command = [sys.executable, str(_SCRIPT), context.device.kind, ours.engine, ours.precision]
        if context.quick:
            command.append("--quick")
        limit_s = context.deadline.limit_s
        cold_s = _seconds_to_first_step(command, os.environ | caches, limit_s)
        warm_s = [
            _seconds_to_first_step(command, os.environ | caches, limit_s)
            for _ in range(_WARM_STARTS)
        ]
    return {"cold_s": cold_s, "warm_s": statistics.median(warm_s)}


def _seconds_to_first_step(
    command: list[str], environment: dict[str, str], limit_s: float
) -> float:
    """Return the seconds from the process's start to the end of its first step.

    Raises
    ------
    RuntimeError
        If the process fails.
    """
    start_s = time.monotonic()
    run = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=limit_s, check=False
    )
    if run.returncode:
        raise RuntimeError(f"the process failed: {run.stderr.strip().splitlines()[-1:]}")
    return float(run.stdout.split()[-1]) - start_s
