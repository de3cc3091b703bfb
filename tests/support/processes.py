"""Processes of tests, and the one time limit of the tests, which only ends what hangs."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from paths import IMPORT_PATHS

PATIENCE_S = 3600.0
"""Ten times what the longest process of a test takes on a slow machine with other work."""

IMPORTS = {"PYTHONPATH": os.pathsep.join(IMPORT_PATHS)}
"""The environment variable by which Python imports what tests import."""


def run(command: list | str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, and return its exit code and its output."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.run(command, check=False, timeout=PATIENCE_S, **(streams | options))


def output_of(command: list | str, **options: Any) -> str:
    """Run a command, check that it succeeds, and return its output."""
    done = run(command, **options)
    assert done.returncode == 0, done.stderr or done.stdout
    return done.stdout


def start_python(code: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    """Start Python with code that may import what tests import; its streams are pipes."""
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": os.environ | IMPORTS}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, text=True, **(streams | options))


def wait_until(
    happens: Callable[[], object], process: subprocess.Popen | None = None, pause_s: float = 0.02
) -> None:
    """Wait for an event; fail if a process ends before it, or if it does not happen."""
    end_s = time.monotonic() + PATIENCE_S
    while not happens():
        assert process is None or process.poll() is None, "the process has ended before"
        assert time.monotonic() < end_s, f"waited {PATIENCE_S:.0f} s in vain"
        time.sleep(pause_s)
