"""The state of a run: its running and finished jobs, their progress, and the time left."""

import contextlib
import math
import time
from collections.abc import Iterable
from typing import Any

from entry.progress import Progress, progress_path
from terminal.planned import PlannedJob
from terminal.sentences import Sentences
from terminal.time_left import Durations, run_s
from terminal.words import about, count

_TELLING_S = 2.0
"""Minimum seconds of a training before its rate is used for estimates of its kind of training."""

_SECONDS_BETWEEN_ESTIMATES = 5.0
"""Seconds between two estimates of the whole run, which are slow for a run with many jobs."""


class Run:
    """The jobs of a run and their state; for `limits` see `terminal.time_left.run_s`."""

    def __init__(self, jobs: Iterable[PlannedJob], durations: Durations, **limits: float) -> None:
        self.jobs = {job.number: job for job in jobs}
        self.left = dict(self.jobs)
        self.durations, self.limits = durations, limits
        self.started_s = time.monotonic()
        self.progress: dict[int, Progress] = {}
        self._began_s: dict[int, float] = {}
        self._sentences = Sentences(self.jobs.values())
        self._estimate = (-math.inf, 0.0)

    @property
    def ended_count(self) -> int:
        """The number of jobs that have succeeded."""
        return len(self.jobs) - len(self.left)

    @property
    def running(self) -> list[PlannedJob]:
        """The running jobs in the order of their start."""
        return [self.jobs[number] for number in self._began_s]

    @property
    def trainings(self) -> list[tuple[PlannedJob, Progress]]:
        """The trainings that have reported progress, with this progress."""
        return [(job, self.progress[n]) for n, job in self.jobs.items() if n in self.progress]

    def start(self, number: int) -> None:
        if job := self.jobs.get(number):
            self._began_s[number] = time.monotonic()
            self.progress.pop(number, None)
            self._forget_progress(job)

    def finish(self, number: int) -> str | None:
        """Record that a job has succeeded, and return the line about it, if it has one."""
        job = self.left.pop(number, None)
        if job is None:
            return None
        self._read_progress(job)
        progress = self.progress.pop(number, None)
        self._forget_progress(job)
        began_s = self._began_s.pop(number, None)
        if began_s is not None and math.isinf(self.limits.get("slots", math.inf)):
            self.durations.learn(job, time.monotonic() - began_s)
        return self._sentences.finished(job, progress)

    def fail(self, number: int) -> None:
        """Record that a job has failed; Snakemake may start it again."""
        self._began_s.pop(number, None)
        self.progress.pop(number, None)
        if job := self.jobs.get(number):
            self._forget_progress(job)

    def look(self) -> None:
        for job in self.running:
            if job.is_training:
                self._read_progress(job)

    def seconds_left(self) -> float:
        now_s = time.monotonic()
        made_s, estimate_s = self._estimate
        if now_s - made_s >= _SECONDS_BETWEEN_ESTIMATES:
            seconds = {number: self._job_left_s(job, now_s) for number, job in self.left.items()}
            began = self._began_s.keys()
            estimate_s = run_s(self.left.values(), seconds, began, **self.limits)
            self._estimate = (now_s, estimate_s)
            return estimate_s
        return max(0.0, estimate_s - (now_s - made_s))

    def in_short(self) -> str:
        """Return a description of the number of jobs and of the time that they take."""
        cores = self.limits.get("cores", math.inf)
        on_cores = f" on {count(int(cores), 'core')}" if cores < math.inf else ""
        return f"{count(len(self.jobs), 'job')}{on_cores}; {about(self.seconds_left())}"

    def _job_left_s(self, job: PlannedJob, now_s: float) -> float:
        progress = self.progress.get(job.number)
        if progress and progress.seconds_left is not None:
            return progress.seconds_left
        expected_s = self.durations.expected_s(job)
        if job.number not in self._began_s:
            return expected_s
        # a job that exceeds its expected time is assumed to need another tenth of that time
        return max(expected_s - (now_s - self._began_s[job.number]), 0.1 * expected_s)

    def _read_progress(self, job: PlannedJob) -> None:
        progress = Progress.read(progress_path(job.log)) if job.log else None
        if progress is None:
            return
        self.progress[job.number] = progress
        if progress.seconds >= _TELLING_S:
            self.durations.learn_rate(job.work, progress.steps, progress.steps_per_s)

    def _forget_progress(self, job: PlannedJob) -> None:
        """Remove the progress file of an earlier attempt, or of a job that has ended."""
        if job.is_training and job.log:
            with contextlib.suppress(OSError):
                progress_path(job.log).unlink(missing_ok=True)


def limits_of(workflow: Any) -> dict[str, float]:
    """Return the limits of cores, GPUs and jobs; see `terminal.time_left.run_s`."""
    resources = workflow.global_resources
    gpus = float(_number(resources.get("gpu")))
    if not workflow.local_exec and not workflow.dryrun:
        return {"slots": float(_number(workflow.nodes)), "gpus": gpus}
    return {"cores": float(workflow.resource_settings.cores or math.inf), "gpus": gpus}


def _number(resource: Any) -> float:
    value = getattr(resource, "value", resource)
    return value if isinstance(value, int | float) else math.inf
