"""Estimates of the time left, from the jobs of this run, and before them from earlier runs."""

import csv
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path

from snakemake_logger_plugin_neuralfield.job import Job
from snakemake_logger_plugin_neuralfield.words import about


class Measured:
    """The measured jobs of each rule: their number, their seconds, and what one needs."""

    def __init__(self) -> None:
        self.jobs: Counter[str] = Counter()
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.needs: dict[str, Mapping[str, float]] = {}

    def add(self, rule: str, seconds: float, needs: Mapping[str, float]) -> None:
        self.jobs[rule] += 1
        self.seconds[rule] += seconds
        self.needs[rule] = needs

    def mean_s(self, rule: str) -> float:
        return self.seconds[rule] / self.jobs[rule]

    def alike(self, rule: str) -> str | None:
        """Return a measured rule with the same kind of work: ``train_batch_1`` for ``_2``."""
        kind = rule.rpartition("_")[0]
        rules = [other for other in self.jobs if other.rpartition("_")[0] == kind]
        return rule if rule in self.jobs else rules[-1] if kind and rules else None


class TimeLeft:
    """What is known about the seconds of jobs.

    Parameters
    ----------
    limits : mapping of str to float
        The resources that all jobs share: cores, jobs at once (`_nodes`), GPUs.
    logs : Path
        The folder with the benchmark files of earlier runs.
    """

    def __init__(self, limits: Mapping[str, float], logs: Path = Path("logs")) -> None:
        self.limits = limits
        self.finished, self.earlier = Measured(), Measured()
        for path in logs.rglob("*.benchmark.tsv"):
            try:
                with path.open(newline="") as file:
                    row = next(csv.DictReader(file, delimiter="\t"))
                rule = row.get("rule_name") or path.name.removesuffix(".benchmark.tsv")
                needs = {"_cores": float(row.get("threads") or 1), "_nodes": 1.0}
                self.earlier.add(rule, float(row["s"]), needs)
            except (OSError, ValueError, KeyError, TypeError, StopIteration):
                continue  # it is damaged

    def in_words(self, waiting: Mapping[str, int], running: Collection[Job]) -> str:
        """Describe the time until all jobs have ended; empty if nothing is known.

        `waiting` has the number of jobs of each rule that have not started.
        """
        measured = Measured()
        for rule in self.finished.jobs:
            measured.add(rule, self.finished.mean_s(rule), self.finished.needs[rule])
        left = []
        unknown = 0
        for job in running:
            left_s = job.seconds_left(self._expected_s(job.rule, self.finished))
            if left_s is None:
                unknown += 1
            else:
                left.append((1, left_s, job.needs))
                measured.add(job.rule, job.seconds + left_s, job.needs)
        for rule, jobs in waiting.items():
            expected_s = self._expected_s(rule, measured)
            if expected_s is None:
                unknown += jobs
            elif jobs > 0:
                known = measured if measured.alike(rule) else self.earlier
                left.append((jobs, expected_s, known.needs[known.alike(rule) or rule]))
        busy_s: defaultdict[str, float] = defaultdict(float)
        for jobs, seconds, needs in left:
            for name in needs.keys() & self.limits.keys():
                busy_s[name] += jobs * seconds * min(1.0, needs[name] / self.limits[name])
        seconds = max([*(seconds for _, seconds, _ in left), *busy_s.values()], default=0.0)
        if not seconds:
            return ""
        return f"{'at least' if unknown else 'about'} {about(seconds)}"

    def _expected_s(self, rule: str, measured: Measured) -> float | None:
        """Return the seconds of a job in this run, or in earlier ones as slow as this run is."""
        if alike := measured.alike(rule):
            return measured.mean_s(alike)
        if rule not in self.earlier.jobs:
            return None
        both = measured.jobs.keys() & self.earlier.jobs.keys()
        now_s = sum(measured.mean_s(rule) for rule in both)
        slowdown = now_s / sum(self.earlier.mean_s(rule) for rule in both) if both else 1.0
        return self.earlier.mean_s(rule) * slowdown
