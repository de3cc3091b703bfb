"""Launches of kernels that may start while the previous kernel ends.

CUDA calls this programmatic dependent launch; captured graphs preserve it. The driver is called
directly, because CuPy has no interface to it. The device side is `dependent_launch.cuh`.
"""

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

from neuralfield.system.device import Array, Device

_LEAST_CAPABILITY = 90
_LEAST_DRIVER = 12_030
"""Minimum CUDA version whose captured graphs preserve such launches, as the driver reports it."""

_PROGRAMMATIC_STREAM_SERIALIZATION = 6


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute of cuda.h."""

    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_int * 16))


class _Config(ctypes.Structure):
    """CUlaunchConfig of cuda.h."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("attribute_count", ctypes.c_uint),
    )


class DependentLaunch:
    """A kernel with its grid and arguments, which may start while the previous kernel ends.

    The arguments are kept alive, because the kernel gets their addresses. The kernel has to call
    `wait_for_earlier_kernels`, by the rules of `dependent_launch.cuh`.
    """

    def __init__(
        self,
        device: Device,
        kernel: Any,
        blocks: int | tuple[int, int],
        threads: int,
        arguments: Sequence[Array],
        shared_bytes: int = 0,
    ) -> None:
        self._cuda = device.xp.cuda
        self._kernel, self._threads = kernel, threads
        self._grid = blocks if isinstance(blocks, tuple) else (blocks, 1)
        self._arguments, self._shared_bytes = tuple(arguments), shared_bytes
        self._overlaps = (
            int(self._cuda.Device().compute_capability) >= _LEAST_CAPABILITY
            and self._cuda.runtime.driverGetVersion() >= _LEAST_DRIVER
        )

    def __call__(self) -> None:
        """Put the kernel on the current stream."""
        if not self._overlaps:
            block = (self._threads,)
            self._kernel(self._grid, block, self._arguments, shared_mem=self._shared_bytes)
            return
        places = [ctypes.c_void_p(array.data.ptr) for array in self._arguments]
        pointers = (ctypes.c_void_p * len(places))(*(ctypes.addressof(place) for place in places))
        attribute = _Attribute(id=_PROGRAMMATIC_STREAM_SERIALIZATION)
        attribute.value[0] = 1
        config = _Config(
            (*self._grid, 1),
            (self._threads, 1, 1),
            self._shared_bytes,
            self._cuda.get_current_stream().ptr,
            ctypes.pointer(attribute),
            1,
        )
        function = ctypes.c_void_p(self._kernel.kernel.ptr)
        status = _driver().cuLaunchKernelEx(ctypes.byref(config), function, pointers, None)
        if status:
            raise self._cuda.driver.CUDADriverError(status)


@cache
def _driver() -> ctypes.CDLL:
    """Load CUDA's driver, which CuPy has loaded already."""
    return ctypes.CDLL("libcuda.so.1")
