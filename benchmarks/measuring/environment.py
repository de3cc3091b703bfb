"""The machine and the versions of a measurement."""

import argparse
import datetime
import importlib.metadata
import importlib.util
import platform
import subprocess
from typing import Any

import numpy as np

from measuring import ROOT
from neuralfield.system.device import Device


def torch_unsupported_reason(arguments: argparse.Namespace | None = None) -> str | None:
    """Return the reason why PyTorch is left out, which may be the option `--no-peers`, or None."""
    if arguments is not None and not arguments.peers:
        return "--no-peers"
    if importlib.util.find_spec("torch") is None:
        return "PyTorch is not installed here"
    return None


def available_peers(device: Device, arguments: argparse.Namespace) -> tuple[Any, ...]:
    """Return PyTorch's ways of running, on `--threads` cores; empty if it is left out."""
    if torch_unsupported_reason(arguments):
        return ()
    from torch_peers.fields import CPU_PEERS, PEERS, use_cores

    use_cores(arguments.threads)
    known = CPU_PEERS if device.kind == "cpu" else PEERS
    return known if arguments.compiled else known[:1]


def describe(device: Device) -> dict[str, Any]:
    """Return date, device, driver and versions. Clocks and limits of the GPU are not changed."""
    found: dict[str, Any] = {
        "date (UTC)": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M"),
        "device": device.name,
        "commit": _output_of("git", "-C", str(ROOT), "describe", "--always", "--dirty"),
        "Python": platform.python_version(),
        "NumPy": np.__version__,
    }
    if torch_unsupported_reason() is None:
        found["PyTorch"] = importlib.metadata.version("torch")
    if device.kind == "gpu":
        runtime = device.xp.cuda.runtime
        query = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
        found |= {
            "driver": _output_of(*query).splitlines()[0],
            "compute capability": device.xp.cuda.Device().compute_capability,
            "CuPy": device.xp.__version__,
            "CUDA of the driver": _cuda_version(runtime.driverGetVersion()),
            "CUDA of CuPy": _cuda_version(runtime.runtimeGetVersion()),
            "clocks": "not touched",
        }
    return found


def _cuda_version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _output_of(*command: str) -> str:
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return run.stdout.strip() or "unknown"
