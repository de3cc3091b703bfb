"""Estimates of the time of a run, from measured times of earlier jobs and the order of jobs."""

import contextlib
import heapq
import json
import math
import operator
import os
import platform
from collections.abc import Collection, Mapping
from pathlib import Path

from neuralfield.system.errors import StorageError
from neuralfield.system.files import write_json
from terminal.planned import PlannedJob, Work

START_S = {"train": 4.0, "report": 4.0, "timelapse": 3.0, "evaluate": 3.0, "render": 2.5}
"""Assumed seconds of a job besides its work, by the prefix of its rule's name."""

_OTHER_START_S = 2.0

SHARES_OF_ESTIMATE = {
    "render on processors": 0.1,
    "render_other_size on processors": 0.1,
    "timelapse on processors": 0.1,
    "evaluate on processors": 0.1,
    "on processors": 0.35,
    "on a GPU": 0.05,
}
"""Assumed ratios of the time of a job's work to its pessimistic estimate, by the suffix of the kind
of work."""

_MOST_FACTOR = 20.0
"""Maximum ratio of measured to assumed times: larger ones come from jobs that waited."""


class Durations:
    """The expected times of jobs, learned from measurements on this machine.

    The assumed time of a job is a start time, which depends on its rule, and a share of its
    pessimistic estimate, which depends on its kind of work. For each kind there is a factor between
    measured and assumed times. The factors are saved at `path` for later runs.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.factors: dict[str, float] = {}
        if path is not None:
            with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
                saved = json.loads(path.read_text())
                self.factors = {str(kind): _bounded(float(f)) for kind, f in saved.items()}
        self._before = dict(self.factors)

    def expected_s(self, job: PlannedJob) -> float:
        start_s = next((s for name, s in START_S.items() if job.rule.startswith(name)), None)
        return self._factor(job.work.kind) * (start_s or _OTHER_START_S) + self.work_s(job.work)

    def work_s(self, work: Work) -> float:
        least_s, most_s = work.bounds_s
        assumed_s = work.seconds * _assumed_share(work.kind)
        return min(max(assumed_s * self._factor(work.kind), least_s), most_s)

    def learn(self, job: PlannedJob, seconds: float) -> None:
        """Update the factors with the seconds of a whole job; a training reports its rate."""
        if not job.is_training:
            kind = job.work.kind
            self._learn(kind, self._factor(kind) * seconds / self.expected_s(job))

    def learn_rate(self, work: Work, steps: int, steps_per_s: float) -> None:
        """Update the factors with the rate of a running training of `steps` steps.

        A training whose budget has determined another number of steps is ignored, because its
        batches may be smaller, too.
        """
        if work.step_s and steps_per_s and steps == work.steps:
            self._learn(work.kind, 1 / (steps_per_s * work.step_s * _assumed_share(work.kind)))

    def save(self) -> None:
        """Save means of the factors of earlier runs and of this run, if possible."""
        if self.path is not None and self.factors:
            factors = {k: math.sqrt(self._before.get(k, f) * f) for k, f in self.factors.items()}
            with contextlib.suppress(OSError, StorageError):
                write_json(self.path, factors, indent=1)

    def _factor(self, kind: str) -> float:
        """Return the factor of a kind of work, or else the geometric mean of those known."""
        if kind in self.factors:
            return self.factors[kind]
        alike = [f for k, f in self.factors.items() if k.endswith("GPU") == kind.endswith("GPU")]
        return math.prod(alike) ** (1 / len(alike)) if alike else 1.0

    def _learn(self, kind: str, factor: float) -> None:
        bounded = _bounded(factor)
        self.factors[kind] = math.sqrt(self.factors.get(kind, bounded) * bounded)


def _bounded(factor: float) -> float:
    return min(max(factor, 1 / _MOST_FACTOR), _MOST_FACTOR)


def _assumed_share(kind: str) -> float:
    return next((share for end, share in SHARES_OF_ESTIMATE.items() if kind.endswith(end)), 0.0)


def saved_path() -> Path:
    """Return the path of the file with the measured durations on this machine."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return cache / "neuralfield" / f"seconds_{platform.node() or 'here'}.json"


def run_s(
    jobs: Collection[PlannedJob],
    seconds: Mapping[int, float],
    running: Collection[int],
    *,
    cores: float = math.inf,
    gpus: float = math.inf,
    slots: float = math.inf,
) -> float:
    """Return the seconds that jobs take together if each starts as soon as the limits allow.

    `jobs` has the jobs that have not ended; a job that they need and that is not among them has
    ended. `seconds` has the remaining time of each job, and `running` the numbers of the running
    jobs. `cores`, `gpus` and `slots` are the maximum numbers of cores, of GPUs, and of jobs in use
    at the same time.
    """
    by_number = {job.number: job for job in jobs}
    waits = {n: len(job.needs & by_number.keys()) for n, job in by_number.items()}
    followers: dict[int, list[int]] = {}
    for number, job in by_number.items():
        for other in job.needs & by_number.keys():
            followers.setdefault(other, []).append(number)
    ready = [n for n in by_number if n in running]
    ready += [n for n, waiting in waits.items() if not waiting and n not in running]
    busy: list[tuple[float, int]] = []
    free = [cores, gpus, slots]
    now_s = 0.0
    while ready or busy:
        left = []
        for place, number in enumerate(ready):
            if number not in running and busy and (free[0] < 1 or free[2] < 1):
                left += ready[place:]
                break
            need = (by_number[number].threads, by_number[number].gpus, 1)
            if number in running or not busy or all(map(operator.le, need, free)):
                free = [room - n for n, room in zip(need, free, strict=True)]
                heapq.heappush(busy, (now_s + max(0.0, seconds[number]), number))
            else:
                left.append(number)
        ready = left
        now_s, number = heapq.heappop(busy)
        need = (by_number[number].threads, by_number[number].gpus, 1)
        free = [room + n for n, room in zip(need, free, strict=True)]
        for follower in followers.get(number, ()):
            waits[follower] -= 1
            if not waits[follower] and follower not in running:
                ready.append(follower)
    return now_s
