"""A job of a run, as Snakemake's events and the files that it writes describe it."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from snakemake_logger_plugin_neuralfield.words import duration, metrics_in_words, read_json

_LONG_S = 30.0
"""Seconds from which on a job has a line, even if it has no number to show."""

_SHARE_OF_LATE_JOB = 0.1
"""Share of the expected seconds that a job is assumed to need after these have passed."""


@dataclass(frozen=True)
class Progress:
    """The progress of a training, as its job writes it; see `entry.progress`."""

    step: int
    steps: int
    measured: str = ""  # the measure of the task with its unit
    seconds: float = 0.0  # time of all steps so far, including earlier attempts
    steps_per_s: float = 0.0  # 0 if it is not known yet

    @property
    def seconds_left(self) -> float:
        """The seconds until the last step, if the rate is known."""
        return max(0, self.steps - self.step) / self.steps_per_s

    @property
    def in_short(self) -> str:
        """The time left, the measure and the steps; a narrow terminal cuts the last ones."""
        left = ""
        if self.step >= self.steps:  # writing the outputs may take longer than the steps
            left = "finishing"
        elif self.steps_per_s:
            minutes, seconds = divmod(round(self.seconds_left), 60)
            left = f"{minutes // 60}:{minutes % 60:02}:{seconds:02} left"
        return ", ".join(filter(None, [left, self.measured, f"{self.step:,} of {self.steps:,}"]))


class Job:
    """A job that has started, with the values of Snakemake's event about it."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.rule: str = values["rule_name"]
        self.wildcards: Mapping[str, str] = values["wildcards"] or {}
        self.message: str = values["rule_msg"] or " ".join([self.rule, *self.wildcards.values()])
        self.reason = str(values["reason"])
        self.outputs, self.logs = values["output"], values["log"]
        resources = values["resources"].items()
        # its cores are among them
        self.needs = {name: amount for name, amount in resources if isinstance(amount, int | float)}
        self._started_s = time.monotonic()
        self._progress_path = Path(next(iter(self.logs), "none")).with_suffix(".progress.json")
        self._earlier_version = self._version()

    @property
    def seconds(self) -> float:
        """The seconds since its start."""
        return time.monotonic() - self._started_s

    @property
    def progress(self) -> Progress | None:
        """The progress that this job has written; that of an earlier attempt is ignored."""
        if self._version() == self._earlier_version:
            return None
        try:
            return Progress(**read_json(self._progress_path))
        except TypeError:  # the file is damaged
            return None

    def seconds_left(self, expected_s: float | None) -> float | None:
        """Return the expected seconds until its end; None if nothing is known."""
        progress = self.progress
        if progress and progress.steps_per_s:
            return progress.seconds_left
        if expected_s is None:
            return None
        return max(expected_s - self.seconds, _SHARE_OF_LATE_JOB * expected_s)

    def result(self) -> str:
        """Return the line about the finished job; empty for a short one without numbers."""
        numbers = ""
        if metrics := [path for path in self.outputs if PurePath(path).name == "metrics.json"]:
            numbers = metrics_in_words(read_json(Path(metrics[0])))
        elif progress := self.progress:
            numbers = f"{progress.measured or 'done'} in {duration(progress.seconds)}"
        elif self.seconds >= _LONG_S:
            numbers = f"done in {duration(self.seconds)}"
        return f"{self.message}: {numbers}" if numbers else ""

    def last_line(self) -> str:
        """Return the last line of its log, where a job writes why it has failed."""
        for log in self.logs:
            try:
                return Path(log).read_text(errors="replace").rstrip().rpartition("\n")[2]
            except OSError:
                pass
        return ""

    def _version(self) -> int:
        """Return a number that changes when the progress file is written."""
        try:
            return self._progress_path.stat().st_mtime_ns
        except OSError:
            return 0
