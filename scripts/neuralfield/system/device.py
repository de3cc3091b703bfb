"""Devices: NumPy on the CPU or CuPy on a GPU, with their memory and cores."""

import contextlib
import ctypes
import importlib.util
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralfield.system.errors import ConfigError, ResourceError
from neuralfield.system.kernel_cache import import_cupy

if TYPE_CHECKING:
    from threadpoolctl import threadpool_limits

Array = Any
"""A NumPy or a CuPy array; the two share one interface."""

DRIVER_FILE = Path("/proc/driver/nvidia/version")


@dataclass(frozen=True)
class Device:
    """A CPU or GPU, and the array library for it."""

    kind: str  # "cpu" or "gpu"
    name: str  # the model of the processor or GPU, for the record
    xp: ModuleType  # ``numpy`` or ``cupy``

    def asarray(self, values: Any, dtype: Any = None) -> Array:
        """Copy `values` to this device, unless they are already on it."""
        return self.xp.asarray(values, dtype=dtype)

    def synchronize(self) -> None:
        """Wait until the device has finished all its work."""
        if self.kind == "gpu":
            self.xp.cuda.get_current_stream().synchronize()


HOST = Device("cpu", "host", np)
"""The CPU, for arrays for which no device was chosen."""


def limit_blas_to_one_core() -> "threadpool_limits":
    """Limit each product of matrices to one core; the limits that are returned are a context."""
    from threadpoolctl import threadpool_limits  # planning needs this module, but not the package

    return threadpool_limits(limits=1)


def keep_freed_memory() -> None:
    """Configure the C library to keep freed memory for the next array.

    By default, glibc returns the memory of large arrays to the kernel immediately, and requests
    zeroed pages again, which takes about a tenth of the time of a training on the CPU. Without
    glibc, this does nothing.
    """
    mmap_threshold, trim_threshold = -3, -1  # of malloc.h
    with contextlib.suppress(OSError, AttributeError):
        c_library = ctypes.CDLL("libc.so.6")
        c_library.mallopt(mmap_threshold, 1 << 25)  # the largest value it accepts
        c_library.mallopt(trim_threshold, 1 << 30)


def to_host(values: Array) -> np.ndarray:
    """Return an array of either library as a NumPy array."""
    return values.get() if hasattr(values, "get") else np.asarray(values)


def namespace_of(values: Array) -> ModuleType:
    """Return the library (``numpy`` or ``cupy``) that an array belongs to."""
    if isinstance(values, np.ndarray | np.generic):
        return np
    import cupy  # `cupy.get_array_module` would import SciPy

    return cupy if isinstance(values, cupy.ndarray) else np


def gpu_is_present() -> bool:
    """Check for an NVIDIA driver, CuPy and a visible GPU, without starting CUDA."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return False
    return DRIVER_FILE.exists() and importlib.util.find_spec("cupy") is not None


def require_device(request: Any) -> None:
    """Raise `ConfigError` unless the value is a device that `select_device` accepts."""
    if request not in ("auto", "cpu", "gpu"):
        raise ConfigError("training.device", repr(request), "auto, cpu or gpu")


def select_device(request: str = "auto") -> Device:
    """Return the device for "cpu", "gpu" or "auto".

    For "auto", it is the GPU if there is an NVIDIA driver, CuPy is installed and a GPU works;
    otherwise the CPU. Raises `ConfigError` for another request, and `ResourceError` if "gpu" is
    requested and no GPU works.
    """
    require_device(request)
    if request == "cpu" or (request == "auto" and not gpu_is_present()):
        return Device("cpu", _processor_name(), np)
    try:
        cupy = import_cupy()
        name = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["name"].decode()
    except Exception as error:  # includes a missing package and a failing driver
        if request == "auto":
            return Device("cpu", _processor_name(), np)
        raise ResourceError(
            "training.device",
            f"gpu, but CuPy cannot use one ({type(error).__name__}: {error})",
            "an NVIDIA GPU with its driver, and CuPy",
            "set training.device: cpu, or install CuPy for your CUDA version",
        ) from error
    return Device("gpu", name, cupy)


def available_cores() -> int:
    """Return the number of cores that this process may use, which a cluster may limit."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_memory_bytes(device: Device) -> int:
    """Return the free memory of the device in bytes, within a container's limit."""
    if device.kind == "gpu":
        free_bytes, _ = device.xp.cuda.runtime.memGetInfo()
        return free_bytes + device.xp.get_default_memory_pool().free_bytes()
    available = _meminfo_available_bytes()
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    statistics = Path("/sys/fs/cgroup/memory.stat")
    with contextlib.suppress(OSError, ValueError, KeyError):  # no such file, or "max": no limit
        # the kernel frees cached files when memory is needed
        cached = dict(line.split() for line in statistics.read_text().splitlines())["inactive_file"]
        in_use = int(used.read_text()) - int(cached)
        available = min(available, int(limit.read_text()) - in_use)
    return available


def require_memory(needed_bytes: int, device: Device, where: str, remedy: str) -> None:
    """Raise `ResourceError` if more memory is needed than the device has free."""
    free_bytes = available_memory_bytes(device)
    if needed_bytes > free_bytes:
        raise ResourceError(
            where,
            f"needs about {needed_bytes / 2**30:.1f} GiB of memory",
            f"at most the {free_bytes / 2**30:.1f} GiB that {device.name} has free",
            remedy,
        )


def require_cores(threads: int, where: str = "training.threads") -> None:
    """Raise `ResourceError` if there are more threads than this process has cores."""
    cores = available_cores()
    if not 1 <= threads <= cores:
        raise ResourceError(
            where, threads, f"a whole number from 1 to {cores}, the number of cores", "lower it"
        )


def _processor_name() -> str:
    return _read_proc("cpuinfo", "model name") or platform.processor() or platform.machine()


def _meminfo_available_bytes() -> int:
    if available := _read_proc("meminfo", "MemAvailable"):
        return int(available.split()[0]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _read_proc(file: str, name: str) -> str | None:
    """Return the first value of this name in a file of Linux; None elsewhere."""
    with contextlib.suppress(OSError):
        for line in Path("/proc", file).read_text().splitlines():
            if line.startswith(name):
                return line.split(":", 1)[1].strip()
    return None
