"""Timing in turns, so that other load on the machine slows all systems equally."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from neuralfield.system.device import Device

Work = Callable[[int], Any]
"""A function that repeats some work as many times as its argument gives."""

_PRODUCT_SIDES = {"cpu": 2048, "gpu": 8192}
_QUICK_SIDE = 128


@dataclass
class Sample:
    """The wall-clock seconds of one call, and the seconds of all cores together."""

    clock_s: float
    cores_s: float


def synchronize_all_streams(device: Device) -> None:
    """Wait for all work on the device, of every stream and every library."""
    if device.kind == "gpu":
        device.xp.cuda.Device().synchronize()


def in_turns(
    works: dict[str, Work], device: Device, rounds: int, sample_s: float
) -> dict[str, list[Sample]]:
    """Take `rounds` samples of each work in turns; the device is idle between samples.

    The number of calls of a sample is chosen so that they take at least `sample_s` seconds.
    """
    calls = {name: _calls_in(work, device, sample_s) for name, work in works.items()}
    found: dict[str, list[Sample]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            found[name].append(_sample(work, calls[name], device))
    return found


def _calls_in(work: Work, device: Device, sample_s: float) -> int:
    """Return the number of calls that take `sample_s` seconds, after one call to warm up."""
    work(1)
    calls = 1
    while (elapsed_s := calls * _sample(work, calls, device).clock_s) < sample_s:
        calls = math.ceil(calls * min(10.0, max(1.2 * sample_s / elapsed_s, 1.2)))
    return calls


def _sample(work: Work, calls: int, device: Device) -> Sample:
    synchronize_all_streams(device)
    start_s, start_cores_s = time.perf_counter(), time.process_time()
    work(calls)
    synchronize_all_streams(device)
    clock_s, cores_s = time.perf_counter() - start_s, time.process_time() - start_cores_s
    return Sample(clock_s / calls, cores_s / calls)


def ratios(numerators: list[Sample], denominators: list[Sample]) -> Sample:
    """Return the median ratios of times that were measured in the same turn."""
    pairs = list(zip(numerators, denominators, strict=True))
    return Sample(
        median(above.clock_s / below.clock_s for above, below in pairs),
        median(above.cores_s / below.cores_s for above, below in pairs),
    )


def medians(samples: list[Sample]) -> Sample:
    """Return the median times."""
    return Sample(median(s.clock_s for s in samples), median(s.cores_s for s in samples))


def with_blas_threads(work: Work, device: Device, threads: int) -> Work:
    """Return the work with a number of BLAS threads; on a GPU, the work itself."""
    if device.kind == "gpu":
        return work

    def run(calls: int) -> None:
        with threadpool_limits(threads):
            work(calls)

    return run


class MatrixProduct:
    """A large matrix product, an upper bound of the rate: in 16 bits on a GPU, else in float32."""

    def __init__(self, device: Device, *, quick: bool) -> None:
        side = _QUICK_SIDE if quick else _PRODUCT_SIDES[device.kind]
        dtype = "float16" if device.kind == "gpu" else "float32"
        factors = np.random.default_rng(0).normal(size=(2, side, side))
        self._factors = device.asarray(factors, dtype=dtype)
        self._product, self._multiply = device.xp.empty_like(self._factors[0]), device.xp.matmul
        self.multiply_adds = side**3

    def __call__(self, calls: int) -> None:
        for _ in range(calls):
            self._multiply(*self._factors, out=self._product)
