"""Estimates of the time left, from the jobs of this run, and before them from earlier runs."""

import csv
from collections import defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path
from statistics import fmean

from snakemake_logger_plugin_neuralfield.job import Job
from snakemake_logger_plugin_neuralfield.words import about

Measured = Mapping[str, list[tuple[float, Mapping[str, float]]]]
"""The seconds of each job of a rule, and the amounts of resources that it used."""

_ONE_CORE = {"_cores": 1.0, "_nodes": 1.0}


class TimeLeft:
    """Estimates the time left from the durations of jobs.

    Parameters
    ----------
    limits : mapping of str to float
        The resources that all jobs share: cores, jobs at once (`_nodes`), GPUs.
    logs : Path
        The folder with the benchmark files of earlier runs.
    """

    def __init__(self, limits: Mapping[str, float], logs: Path = Path("logs")) -> None:
        self.limits = limits
        self.finished: Measured = defaultdict(list)
        self.earlier: Measured = defaultdict(list)
        self._without_progress_s: list[float] = []
        for path in logs.rglob("*.benchmark.tsv"):
            try:
                with path.open(newline="") as file:
                    row = next(csv.DictReader(file, delimiter="\t"))
                rule = row.get("rule_name") or path.name.removesuffix(".benchmark.tsv")
                needs = _ONE_CORE | {"_cores": float(row.get("threads") or 1)}
                self.earlier[rule].append((float(row["s"]), needs))
            except (OSError, ValueError, KeyError, TypeError, StopIteration):
                continue  # it is damaged

    def learn(self, job: Job) -> None:
        """Take the seconds of a job that has just finished into account."""
        self.finished[job.rule].append((job.seconds, job.needs))
        if not job.progress:
            self._without_progress_s.append(job.seconds)

    def in_words(self, waiting: Mapping[str, int], running: Collection[Job]) -> str:
        """Describe the time until all jobs have ended; empty if nothing is known.

        `waiting` has the number of jobs of each rule that have not started. A job of which nothing
        is known counts as long as those that report no progress; with several, the time is called a
        minimum.
        """
        measured = {rule: [*jobs] for rule, jobs in self.finished.items()}
        work = []  # numbers of jobs, their seconds, their needs
        unknown = 0
        for job in running:
            known = self._expected(job.rule, self.finished)
            left_s = job.seconds_left(known[0] if known else None)
            unknown += left_s is None
            work.append((1, left_s or 0.0, job.needs))
            measured.setdefault(job.rule, []).append((job.seconds + (left_s or 0.0), job.needs))
        usual_s = fmean(self._without_progress_s or [0.0])
        for rule, jobs in waiting.items():
            known = self._expected(rule, measured)
            unknown += jobs if known is None else 0
            work.append((jobs, *(known or (usual_s, _ONE_CORE))))
        busy_s: defaultdict[str, float] = defaultdict(float)
        for jobs, seconds, needs in work:
            for name in needs.keys() & self.limits.keys():
                busy_s[name] += jobs * seconds * min(1.0, needs[name] / self.limits[name])
        longest_s = max((seconds for jobs, seconds, _ in work if jobs), default=0.0)
        seconds = max(longest_s, *busy_s.values(), 0.0)
        # the target itself, which takes no time, is never measured
        return f"{'at least' if unknown > 1 else 'about'} {about(seconds)}" if seconds else ""

    def _expected(self, rule: str, measured: Measured) -> tuple[float, Mapping[str, float]] | None:
        """Return the seconds and needs of a job, from this run or else from earlier ones.

        Rules such as ``train_batch_1`` and ``train_batch_2`` do the same kind of work.
        """
        kind = rule.rpartition("_")[0]
        alike = [measured[other] for other in measured if kind and other.startswith(f"{kind}_")]
        if jobs := measured.get(rule, alike[-1] if alike else []):
            return _mean_s(jobs), jobs[-1][1]
        if rule not in self.earlier:
            return None
        both = measured.keys() & self.earlier.keys()  # they tell how slow the machine is now
        before_s = sum(_mean_s(self.earlier[rule]) for rule in both)
        slowdown = sum(_mean_s(measured[rule]) for rule in both) / before_s if before_s else 1.0
        return _mean_s(self.earlier[rule]) * slowdown, self.earlier[rule][-1][1]


def _mean_s(jobs: list[tuple[float, Mapping[str, float]]]) -> float:
    return fmean(seconds for seconds, _ in jobs)
