"""The machine, versions and options of a measurement, and the peak rates of the device."""

import argparse
import datetime
import importlib.metadata
import importlib.util
import platform
import subprocess
from typing import Any

import numpy as np

from measuring import ROOT
from measuring.measure import Effort, time_calls
from measuring.rows import Ceilings
from neuralfield.system.device import Device


def torch_unsupported_reason(arguments: argparse.Namespace | None = None) -> str | None:
    """Return the reason why PyTorch is left out, which may be the option `--no-peers`, or None."""
    if arguments is not None and not arguments.peers:
        return "--no-peers"
    if importlib.util.find_spec("torch") is None:
        return "PyTorch is not installed here"
    return None


def available_peers(device: Device, arguments: argparse.Namespace) -> tuple[Any, ...]:
    """Return PyTorch's float32 ways of running, on `--threads` cores; empty if it is left out."""
    if torch_unsupported_reason(arguments):
        return ()
    from torch_peers.fields import CPU_PEERS, PEERS, use_cores

    use_cores(arguments.threads)
    known = CPU_PEERS if device.kind == "cpu" else tuple(peer for peer in PEERS if not peer.half)
    return known if arguments.compiled else known[:1]


def describe_options(arguments: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return the named options, the reason why peers are left out, and whether sizes are tiny."""
    found: dict[str, Any] = {name: getattr(arguments, name) for name in names}
    if "peers" in arguments and (reason := torch_unsupported_reason(arguments)):
        found["peers"] = f"left out: {reason}"
    if arguments.quick:
        found["sizes"] = "tiny (--quick): these numbers are no measure of speed or fit"
    return found


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


def measure_ceilings(device: Device, effort: Effort, *, quick: bool, with_peers: bool) -> Ceilings:
    """Measure the rate of a large 16-bit matrix product, and of a copy larger than the caches.

    The product is computed by CuPy and, if peers are measured on a GPU, by PyTorch; the faster
    one counts. On a CPU, which has no 16-bit matrix units, the product is computed in float32.
    """
    side, copied = (256, 1 << 18) if quick else (8192, 1 << 28)
    xp = device.xp
    dtype = "float16" if device.kind == "gpu" else "float32"
    generator = np.random.default_rng(0)
    factors = [device.asarray(generator.normal(size=(side, side)), dtype=dtype) for _ in range(2)]
    product = xp.empty_like(factors[0])

    def multiply(calls: int) -> None:
        for _ in range(calls):
            xp.matmul(*factors, out=product)

    product_s = [time_calls(multiply, device, effort).median_s]
    if device.kind == "gpu" and with_peers:
        from torch_peers.fields import repeated_product

        product_s.append(time_calls(repeated_product(*factors), device, effort).median_s)
    source = device.asarray(generator.random(copied, dtype=np.float32))
    target = xp.empty_like(source)

    def copy(calls: int) -> None:
        for _ in range(calls):
            xp.copyto(target, source)

    copy_s = time_calls(copy, device, effort).median_s
    return Ceilings(2 * side**3 / min(product_s), 2 * source.nbytes / copy_s)


def _cuda_version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _output_of(*command: str) -> str:
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return run.stdout.strip() or "unknown"
