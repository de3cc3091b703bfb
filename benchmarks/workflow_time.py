"""Measures a run of the workflow: the time of each job, and the idle time between jobs.

    python benchmarks/workflow_time.py --cores 2
    python benchmarks/workflow_time.py --cores 16 --full-caches --config image=/home/me/photo.jpg

runs the workflow in a new folder, with empty kernel caches, or with caches that a first run has
filled (`--full-caches`, which prints the seconds of both runs). All other options are passed to
Snakemake. The program prints the start and the end of each job in seconds since the start of
Snakemake; then the sums of the jobs of each rule, the idle time of cores, and the total time.
Seconds and processor time are those of the jobs' benchmark files in logs/. Files in options have to
be given by absolute paths.
"""

import argparse
import csv
import os
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from measuring.command_line import start
from measuring.measure import print_header, print_row
from measuring.workflow_runs import run_workflow

from neuralfield.system.device import available_cores

_SUFFIX = ".benchmark.tsv"


@dataclass(frozen=True)
class TimedJob:
    """A job's name and rule, and its start and end in seconds since the start of Snakemake."""

    name: str
    rule: str
    started_s: float
    ended_s: float
    processor_s: float

    @property
    def seconds(self) -> float:
        """The seconds that the job ran."""
        return self.ended_s - self.started_s


def read_jobs(logs: Path, started_at_s: float) -> list[TimedJob]:
    """Read the jobs of a run, sorted by their starts; `started_at_s` is in seconds since 1970."""
    jobs = []
    for path in logs.rglob(f"*{_SUFFIX}"):
        with path.open(encoding="utf-8", newline="") as file:
            row = list(csv.DictReader(file, delimiter="\t"))[-1]
        ended_s = path.stat().st_mtime - started_at_s
        processor_s = float(row["cpu_time"]) if row["cpu_time"] not in ("NA", "-") else 0.0
        name = os.fspath(path.relative_to(logs)).removesuffix(_SUFFIX)
        rule = row.get("rule_name") or Path(name).name
        jobs.append(TimedJob(name, rule, ended_s - float(row["s"]), ended_s, processor_s))
    return sorted(jobs, key=lambda job: (job.started_s, job.name))


def idle_s(jobs: list[TimedJob], cores: int, total_s: float) -> float:
    """Return the core-seconds in which no job ran; a job counts as one core."""
    return cores * total_s - sum(job.seconds for job in jobs)


def caches_in(folder: Path) -> dict[str, str]:
    """Return environment variables that put all caches of kernels into a folder."""
    folder.mkdir(exist_ok=True)
    names = ("XDG_CACHE_HOME", "CUPY_CACHE_DIR", "CUDA_CACHE_PATH", "TMPDIR")
    return dict.fromkeys(names, os.fspath(folder))


def main(options: argparse.Namespace) -> int:
    """Run the workflow, and print its timeline."""
    with tempfile.TemporaryDirectory() as temporary:
        os.environ |= caches_in(Path(temporary, "caches"))
        # Python's bytecode cache: container images often disable it, and all modules that a job
        # imports would then be compiled again
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        arguments = ("--cores", str(options.cores), *options.snakemake)
        folder = Path(temporary, "first")
        folder.mkdir()
        started_at_s = time.time()
        total_s = run_workflow(folder, *arguments)
        if options.full_caches:
            print(f"with empty caches: {total_s:.1f} s\n")
            folder = Path(temporary, "second")
            folder.mkdir()
            started_at_s = time.time()
            total_s = run_workflow(folder, *arguments)
        jobs = read_jobs(folder / "logs", started_at_s)
    print_header("job", "start, s", "end, s", "seconds", "processor, s")
    for job in jobs:
        times = (job.started_s, job.ended_s, job.seconds, job.processor_s)
        print_row(job.name, *(f"{seconds:.1f}" for seconds in times))
    by_rule: dict[str, list[TimedJob]] = defaultdict(list)
    for job in jobs:
        by_rule[job.rule].append(job)
    print()
    print_header("rule", "jobs", "seconds", "processor, s")
    for rule, of_rule in by_rule.items():
        seconds, processor_s = (sum(job.seconds for job in of_rule), _processor_s(of_rule))
        print_row(rule, str(len(of_rule)), f"{seconds:.1f}", f"{processor_s:.1f}")
    before_s, after_s = jobs[0].started_s, total_s - max(job.ended_s for job in jobs)
    print(f"\nwhole run: {total_s:.1f} s on {options.cores} cores")
    print(
        f"jobs: {len(jobs)}, {sum(job.seconds for job in jobs):.1f} s, of which the processor"
        f" worked {_processor_s(jobs):.1f} s"
    )
    print(f"before the first job: {before_s:.1f} s; after the last one: {after_s:.1f} s")
    print(f"cores without a job: {idle_s(jobs, options.cores, total_s):.1f} core-seconds")
    return 0


def _processor_s(jobs: list[TimedJob]) -> float:
    return sum(job.processor_s for job in jobs)


class _Parser(argparse.ArgumentParser):
    """A parser that passes unknown options to Snakemake."""

    def parse_args(self, *given: object) -> argparse.Namespace:  # type: ignore[override]
        """Parse the options of this program; the others become `snakemake`."""
        options, options.snakemake = self.parse_known_args()
        return options


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--cores", type=int, default=available_cores(), help="cores that Snakemake uses")
    add(
        "--full-caches",
        action="store_true",
        help="time a second run, with the compiled kernels of the first",
    )
    return parser


if __name__ == "__main__":
    start(main, _parser())
