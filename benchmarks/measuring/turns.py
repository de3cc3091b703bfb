"""Timing in turns, so that other load on the machine slows all systems equally."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from threadpoolctl import threadpool_limits

Work = Callable[[int], Any]
"""A function that repeats some work as many times as its argument gives."""


@dataclass
class Sample:
    """The wall-clock seconds of one call, and the seconds of all cores together."""

    clock_s: float
    cores_s: float


def in_turns(works: dict[str, Work], rounds: int, sample_s: float) -> dict[str, list[Sample]]:
    """Take `rounds` samples of each work in turns, after one call to warm up.

    The number of calls of a sample is chosen so that they take at least `sample_s` seconds.
    """
    calls = {}
    for name, work in works.items():
        work(1)
        start_s = time.perf_counter()
        work(1)
        calls[name] = max(1, math.ceil(sample_s / (time.perf_counter() - start_s)))
    found: dict[str, list[Sample]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            start_s, start_cores_s = time.perf_counter(), time.process_time()
            work(calls[name])
            clock_s, cores_s = time.perf_counter() - start_s, time.process_time() - start_cores_s
            found[name].append(Sample(clock_s / calls[name], cores_s / calls[name]))
    return found


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


def with_one_core_blas(work: Work) -> Work:
    """Return the work with BLAS on one core, as in `fit`: engines use threads themselves."""

    def run(calls: int) -> None:
        with threadpool_limits(1):
            work(calls)

    return run
