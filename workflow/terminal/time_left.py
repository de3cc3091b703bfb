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

_MEMORY = 0.5
"""The weight of the latest measurement in the moving average; earlier ones have the rest."""

_LEAST_TELLING_SHARE = 0.3
"""Minimum share of a job's time that its work has to be expected to take for the job to be a
measurement of its work; other jobs are measurements of the start time."""

_MOST_FACTOR = 20.0
"""Maximum factor between a measured ratio and the assumed one: larger deviations come from jobs
that waited for something."""


class Durations:
    """The expected times of jobs, learned from measurements on this machine.

    The time of a job is a start time, which depends on its rule, plus a share of its pessimistic
    estimate, which depends on its kind of work. The first run on a machine assumes both. The
    measurements are saved at `path` for later runs.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.start_s: dict[str, float] = {}
        self.shares: dict[str, float] = {}
        if path is not None:
            with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
                kept = json.loads(path.read_text())
                self.start_s = {str(k): float(v) for k, v in kept["start_s"].items()}
                self.shares = {str(k): float(v) for k, v in kept["shares"].items()}
        self._kept = dict(self.start_s), dict(self.shares)

    def expected_s(self, job: PlannedJob) -> float:
        return self._start_s(job.rule) + self.work_s(job.work)

    def work_s(self, work: Work) -> float:
        if not work.seconds:
            return 0.0
        least_s, most_s = work.bounds_s
        return min(max(work.seconds * self._share(work.kind), least_s), most_s)

    def learn(self, job: PlannedJob, seconds: float) -> None:
        """Update the measurements with the seconds of a whole job."""
        work_s = self.work_s(job.work)
        if work_s < _LEAST_TELLING_SHARE * seconds:
            start_s = max(0.2, seconds - work_s)
            before_s = self.start_s.get(_rule_family(job.rule), start_s)
            mixed_s = _MEMORY * start_s + (1 - _MEMORY) * before_s
            self.start_s[_rule_family(job.rule)] = round(mixed_s, 3)
        elif not job.is_training:  # a training has reported its rate already
            work_s = max(0.0, seconds - self._start_s(job.rule))
            before = self._share(job.work.kind)
            share = _MEMORY * work_s / job.work.seconds + (1 - _MEMORY) * before
            self._set_share(job.work.kind, share)

    def learn_rate(self, work: Work, steps: int, steps_per_s: float) -> None:
        """Update the measurements with the rate of a running training of `steps` steps.

        A training whose budget has determined another number of steps is ignored, because its
        batches may be smaller, too.
        """
        if work.step_s and steps_per_s and steps == work.steps:
            self._set_share(work.kind, 1 / steps_per_s / work.step_s)

    def keep(self) -> None:
        """Save the measurements for the next run, if possible.

        The saved values are means of those of earlier runs and of this run, because something may
        have slowed this run down.
        """
        if self.path is None or not (self.start_s or self.shares):
            return
        start_s, shares = map(_between, self._kept, (self.start_s, self.shares))
        with contextlib.suppress(OSError, StorageError):
            write_json(self.path, {"start_s": start_s, "shares": shares}, indent=1)

    def _start_s(self, rule: str) -> float:
        family = _rule_family(rule)
        if family in self.start_s:
            return self.start_s[family]
        return next((s for name, s in START_S.items() if rule.startswith(name)), _OTHER_START_S)

    def _share(self, kind: str) -> float:
        if kind in self.shares:
            return self.shares[kind]
        speeds = [
            math.log(share / _assumed_share(other))
            for other, share in self.shares.items()
            if other.endswith("GPU") == kind.endswith("GPU") and share > 0
        ]
        machine = math.exp(sum(speeds) / len(speeds)) if speeds else 1.0
        return machine * _assumed_share(kind)

    def _set_share(self, kind: str, share: float) -> None:
        assumed = _assumed_share(kind)
        bounded = min(max(share, assumed / _MOST_FACTOR), assumed * _MOST_FACTOR)
        self.shares[kind] = round(bounded, 6)


def _rule_family(rule: str) -> str:
    """Return the name of a rule, or the common prefix of the rules of all batches or tile jobs."""
    families = ("train_batch", "train_tiles")
    return next((family for family in families if rule.startswith(f"{family}_")), rule)


def _between(before: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    """Return the geometric means of two measurements."""
    return {key: round(math.sqrt(before.get(key, value) * value), 6) for key, value in now.items()}


def _assumed_share(kind: str) -> float:
    return next(share for end, share in SHARES_OF_ESTIMATE.items() if kind.endswith(end))


def kept_path() -> Path:
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
