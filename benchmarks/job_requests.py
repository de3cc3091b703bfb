"""Compare the resources that jobs have used with those that they had requested.

    python benchmarks/job_requests.py [logs]

Prints a line for each rule, from the benchmark files beside the workflow's logs, and exits with 1
if a job has used more than it had requested. Memory is that of the rule's script alone: a job on a
cluster also has two Snakemake processes of about 100 MB each.
"""

import argparse
import ast
import csv
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

_ONE_BY_ONE = re.compile(r"(train_batch|train_tiles)_.+")
"""The names of rules that are generated for single batches and jobs on tiles."""


@dataclass(frozen=True)
class EndedJob:
    """A finished job; as in Snakemake, `asked_mb` has units of 10^6 and `used_mb` of 2^20 bytes."""

    rule: str
    asked_mb: float
    used_mb: float
    asked_s: float
    used_s: float

    @property
    def is_within(self) -> bool:
        """Whether the job used no more than it had requested."""
        return self.used_mb * 2**20 <= self.asked_mb * 1e6 and self.used_s <= self.asked_s


def read_jobs(folder: Path) -> Iterator[EndedJob]:
    """Yield the jobs whose benchmark files in a folder have the requested resources."""
    csv.field_size_limit(sys.maxsize)
    for path in sorted(folder.rglob("*.benchmark.tsv")):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t"):
                if row.get("resources") and row["max_rss"] != "NA":
                    asked = ast.literal_eval(row["resources"])
                    yield EndedJob(
                        _ONE_BY_ONE.sub(r"\1", row["rule_name"]),
                        asked["mem_mb"],
                        float(row["max_rss"]),
                        60 * asked["runtime"],
                        float(row["s"]),
                    )


def table(jobs: Iterable[EndedJob]) -> str:
    """Return a line for each rule, with the job that came closest to its request."""
    lines = [f"{'rule':16}{'jobs':>5}{'MB asked':>10}{'used':>8}{'min asked':>11}{'used':>8}"]
    for rule, group in groupby(sorted(jobs, key=lambda job: job.rule), lambda job: job.rule):
        of_rule = list(group)
        memory = max(of_rule, key=lambda job: job.used_mb / job.asked_mb)
        time = max(of_rule, key=lambda job: job.used_s / job.asked_s)
        mark = "" if all(job.is_within for job in of_rule) else "  more than asked for"
        lines.append(
            f"{rule:16}{len(of_rule):5}{memory.asked_mb:10.0f}{memory.used_mb * 2**20 / 1e6:8.0f}"
            f"{time.asked_s / 60:11.0f}{time.used_s / 60:8.1f}{mark}"
        )
    return "\n".join(lines)


def main() -> int:
    """Print the table; return 1 if a job has used more than it had requested."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("logs", nargs="?", type=Path, default=Path("logs"), help="default: logs")
    folder = parser.parse_args().logs
    jobs = list(read_jobs(folder))
    if not jobs:
        print(f"{folder}: no benchmarks with the requests of jobs; run the workflow first")
        return 1
    print(table(jobs))
    return 0 if all(job.is_within for job in jobs) else 1


if __name__ == "__main__":
    sys.exit(main())
