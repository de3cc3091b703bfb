"""The state of a run, made from Snakemake's events, and its lines."""

import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from snakemake_interface_logger_plugins.common import LogEvent

from snakemake_logger_plugin_neuralfield.job import Job, Progress
from snakemake_logger_plugin_neuralfield.time_left import TimeLeft
from snakemake_logger_plugin_neuralfield.words import count, duration, table

_MOST_LINES = 20
_MOST_NAMES = 3
"""Maximum number of running jobs that are named in one line."""


class Run:
    """The jobs of a run; `stats` are Snakemake's counts, and `limits` those of `TimeLeft`."""

    def __init__(self, stats: Mapping[str, int], limits: Mapping[str, float]) -> None:
        self.waiting = Counter({rule: jobs for rule, jobs in stats.items() if rule != "total"})
        self.done, self.total = 0, self.waiting.total()
        self.cores = int(limits.get("_cores", 0))
        self.jobs: dict[int, Job] = {}  # all that have started
        self.running: dict[int, Job] = {}
        self.failed: dict[int, Job] = {}
        self._started_s = time.monotonic()
        self._time_left = TimeLeft(limits)

    def take(self, event: LogEvent, values: Mapping[str, Any]) -> str:
        """Take an event into account, and return the line about it, if it has one."""
        if event == LogEvent.JOB_INFO:
            self._start(values["jobid"], Job(values))
        elif event == LogEvent.JOB_FINISHED and (job := self.running.pop(values["job_id"], None)):
            self._time_left.learn(job)
            return job.result()
        elif event == LogEvent.PROGRESS:
            self.done, self.total = values["done"], values["total"]
        elif event in (LogEvent.JOB_ERROR, LogEvent.GROUP_ERROR):
            for error in values.get("job_error_info", [values]):
                if job := self.running.pop(error["jobid"], None):
                    self.failed[error["jobid"]] = job
        return ""

    def trainings(self) -> list[tuple[str, Progress]]:
        """Return the names and the progress of the running jobs that report it."""
        every = [(job.message, job.progress) for job in self.running.values()]
        return [(name, progress) for name, progress in every if progress]

    def beginning(self) -> str:
        """Describe the run at its start."""
        on_cores = f" on {count(self.cores, 'core')}" if self.cores else ""
        left = self._time_left.in_words(self.waiting, [])
        by_earlier_runs = f"; {left}, by earlier runs" if left else ""
        return f"{count(self.total, 'job')}{on_cores}{by_earlier_runs}"

    def state(self) -> str:
        """Describe how far the run is, what is left, and what runs without a bar."""
        text = f"{self.done} of {self.total} jobs done in {self._passed()}"
        if left := self._time_left.in_words(self.waiting, self.running.values()):
            text += f", {left} left"
        others = [job.message for job in self.running.values() if not job.progress]
        others[_MOST_NAMES:] = ["..."] if others[_MOST_NAMES:] else []
        return f"{text}: {', '.join(others)}" if others else text

    def end(self) -> str:
        """Describe what the run has made, or what has failed."""
        if self.done == self.total:
            made = [Path(path) for job in self.jobs.values() for path in job.outputs]
            reports = [f"Open {path}." for path in made if path.name == "report.html"]
            done = " ".join([f"Done in {self._passed()}.", *reports])
            return "\n".join([*table(sorted({path.parent for path in made})), done])
        lines = [f"Not finished: {self.done} of {self.total} jobs done in {self._passed()}"]
        if self.failed:
            lines[0] += f", {len(self.failed)} failed:"
        for job in list(self.failed.values())[:_MOST_LINES]:
            lines.append(f"  {job.message}: {job.last_line() or 'nothing in its log'}")
        return "\n".join([*lines, "The same command continues from here."])

    def dry_run(self) -> str:
        """Describe the jobs that would run, a line for each network or image."""
        groups: dict[str, list[Job]] = {}
        for job in self.jobs.values():
            groups.setdefault(", ".join(job.wildcards.values()) or "all", []).append(job)
        lines = [f"  {name}: {_planned(jobs)}" for name, jobs in sorted(groups.items())]
        if len(lines) > _MOST_LINES:
            lines[_MOST_LINES - 1 :] = [f"  and {len(lines) - _MOST_LINES + 1:,} more"]
        note = "This was a dry run. `snakemake -n --verbose` lists every job with its files."
        end = ":" if lines else "."
        return "\n".join([f"Would run {count(self.total, 'job')}{end}", *lines, note])

    def _start(self, number: int, job: Job) -> None:
        if self.failed.pop(number, None) is None:  # else Snakemake tries it again
            self.waiting[job.rule] -= 1
        self.jobs[number] = self.running[number] = job

    def _passed(self) -> str:
        return duration(time.monotonic() - self._started_s)


def _planned(jobs: list[Job]) -> str:
    """Return the rules of jobs, and the reasons why they would run."""
    rules = dict.fromkeys(job.rule for job in jobs)
    # a reason is a sentence with the files that it is about after a colon
    parts = [reason.partition(":")[0].strip() for job in jobs for reason in job.reason.split(";")]
    reasons = dict.fromkeys(part.lower() for part in parts if "by another job" not in part)
    return ", ".join(rules) + (f" ({', '.join(reasons)})" if reasons else "")
