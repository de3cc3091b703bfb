"""Runs tests of kernels under Compute Sanitizer in several processes, until a time limit.

    python benchmarks/sanitizer.py --output benchmarks/results/NAME.md

Under the sanitizer a test takes seconds to minutes. Tests are therefore run in a random order, the
same in each run, and those that do not fit into the time are left out. The sanitizer has to be
version 2026.1 or newer: see docs/gpu.md.
"""

import argparse
import bisect
import contextlib
import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest
from measuring import ROOT
from measuring.command_line import new_parser, start
from measuring.environment import describe
from measuring.measure import Report

from neuralfield.system.device import select_device

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
TESTS = (
    "test_gradients_are_those_of_the_tape",
    "test_networks_of_a_batch_have_the_bytes_that_they_have_alone",
    "test_pass",
    "test_rendered_values",
    "test_features",
    "test_the_gradient_of_all_pixels",
    "test_the_gradient_of_any_points_in_any_order",
    "test_sampling_is_the_same_bits",
    "test_update_moves_parameters_as_the_optimizer_does",
    "test_muon_moves_matrices_as_in_float64",
    "test_pixels",
    "test_samples_in_a_box",
)
_IS_CHOSEN = re.compile(rf"::({'|'.join(TESTS)})\b")
_PYTEST = ("-q", "-p", "no:cacheprovider", "-p", "no:randomly")
_SHARE_TO_BEGIN = 0.85  # of the time limit: tests that have started by then may still finish
_FINDING = re.compile(  # may follow pytest's dots on a line
    rb"(?<!=)========= (?!COMPUTE-SANITIZER|\w+ SUMMARY| )(.+(?:\n=========     and .+)*)"
)


def kind_of(test: str) -> str:
    """Return the kind of kernels that a test covers: its file, its function, and the pass."""
    name = test.removeprefix("tests/parity/test_").split("[")[0].replace(".py::test_", ": ")
    passes = re.search(r"\w+Pass-(mixed|float32)", test)
    return name.replace("_", " ") + (f", {passes[0]}" if passes else "")


def collect_tests(expression: str) -> list[str]:
    """Return the tests of kernels that pytest's -k chooses, in a random order."""
    command = [sys.executable, "-m", "pytest", *_PYTEST, "--collect-only", "tests/parity"]
    command += ["-k", expression] if expression else []
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    tests = [test for test in found.stdout.splitlines() if _IS_CHOSEN.search(test)]
    if not tests:
        raise SystemExit(f"no test of a kernel is named by -k {expression!r}:\n{found.stdout}")
    random.Random(0).shuffle(tests)  # neighbouring tests are similar
    return tests


class Record:
    """A pytest plugin that skips tests after a time limit, and records the outcome of each test."""

    def __init__(self, file: Path, until: float) -> None:
        self._file, self._until = file, until

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Record that a test starts, or skip the test after the time limit."""
        if time.time() > self._until:
            pytest.skip("no time left")
        self._note(item.nodeid, "unfinished")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record the outcome of a test."""
        if report.when == "call" or report.failed:
            self._note(report.nodeid, report.outcome)

    def _note(self, test: str, outcome: str) -> None:
        log_bytes = self._file.with_name("log").stat().st_size
        with self._file.open("a") as file:
            print(json.dumps([test, outcome, log_bytes]), file=file)


def run_part(folder: Path, tool: str, until: float) -> int:
    """Run the tests that are listed in a folder."""
    if tool == "memcheck":  # in CuPy's pool, writes to a neighbouring array go unnoticed
        import cupy

        cupy.cuda.set_allocator(None)
    tests = json.loads((folder / "tests.json").read_text())
    options = [*_PYTEST, "--tb=line"]
    status = int(pytest.main([*options, *tests], plugins=[Record(folder / "ended", until)]))
    (folder / "status").write_text(str(status))
    return status


class SanitizerRun:
    """Some of the tests, running in a process under a tool of the sanitizer."""

    def __init__(
        self, sanitizer: str, tool: str, tests: list[str], folder: Path, limit_s: float
    ) -> None:
        self.tool, self._folder = tool, folder
        self._until, self._has_ended = time.time() + limit_s, False
        self._record: list[tuple[str, str, int]] = []  # test, outcome, bytes of the log
        self._log = b""
        folder.mkdir()
        (folder / "tests.json").write_text(json.dumps(tests))
        run = [sys.executable, str(Path(__file__)), "--part", str(folder), "--tools", tool]
        workers = ["--racecheck-num-workers", "1"] if tool == "racecheck" else []
        self._process = subprocess.Popen(
            [sanitizer, "--tool", tool, *workers, *run, "--limit-s", str(limit_s)],
            cwd=ROOT,
            stdout=(folder / "log").open("w"),
            stderr=subprocess.STDOUT,
            env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            start_new_session=True,
        )

    def wait(self, until: float = math.inf) -> None:
        """Wait until the process ends, or stop it after its time limit or an earlier time.

        The log is read before the process is stopped, so that it has no messages about the stop.
        """
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.1, min(until, self._until) - time.time()))
            self._has_ended = True
        ended, log = self._folder / "ended", self._folder / "log"
        if ended.exists():  # read before the log, which then covers all recorded tests
            lines = ended.read_text().splitlines(keepends=True)
            self._record = [tuple(json.loads(line)) for line in lines if line.endswith("\n")]
        self._log = log.read_bytes()
        if not self._has_ended:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def outcomes(self) -> dict[str, str]:
        """Return the outcome of each test that has started."""
        return {test: outcome for test, outcome, _ in self._record}

    def findings(self) -> list[tuple[str, str]]:
        """Return the reports of the sanitizer, each with the test that had started last."""
        begun = [(at, test) for test, outcome, at in self._record if outcome == "unfinished"]
        found = []
        for match in _FINDING.finditer(self._log):
            place = bisect.bisect_right(begun, match.start(), key=lambda test: test[0])
            test = begun[place - 1][1] if place else "what comes before all tests"
            found.append((match[1].decode(errors="replace"), test))
        return found

    def failure(self) -> str:
        """Return why tests did not run before the time limit; empty if there was no failure."""
        status = self._folder / "status"
        if not self._record:
            return f"{self.tool} began no test: {self._end_of_log()}"
        if self._has_ended and not (status.exists() and status.read_text() in ("0", "1")):
            return f"{self.tool} broke off in {self._record[-1][0]}: {self._end_of_log()}"
        return ""

    def _end_of_log(self) -> str:
        return self._log[-300:].decode(errors="replace")


def add_to_report(report: Report, parts: list[SanitizerRun]) -> None:
    """Count tests by kind and tool, and findings."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for part in parts:
        for test, outcome in part.outcomes().items():
            counts.setdefault((kind_of(test), part.tool), Counter())[outcome] += 1
        report.require(not part.failure(), part.failure())
    for (kind, tool), ended in sorted(counts.items()):
        if not set(ended) <= {"skipped"}:
            numbers = {name: ended[name] for name in ("passed", "failed", "unfinished")}
            report.add("kernels", kind, tool, **numbers)
            report.require(ended["failed"] == 0, f"{tool}: {ended['failed']} failed of {kind}")
    for tool in dict.fromkeys(part.tool for part in parts):
        tests: dict[str, list[str]] = {}
        for finding, test in (found for p in parts if p.tool == tool for found in p.findings()):
            tests.setdefault(re.sub(r"\s*\n=+\s*", " ", finding), []).append(test)
        for finding, named in sorted(tests.items(), key=lambda item: -len(item[1]))[:20]:
            report.require(False, f"{tool}, {len(named)} times, as in {named[0]}: {finding}")
    for quantity in ("passed", "unfinished"):
        report.add_table("kernels", quantity, f"tests {quantity}")


def main(arguments: argparse.Namespace) -> int:
    """Run the tests; return 1 if a test has failed or the sanitizer has reported anything."""
    if arguments.part:
        until = time.time() + _SHARE_TO_BEGIN * arguments.limit_s
        return run_part(arguments.part, arguments.tools[0], until)
    if not arguments.sanitizer:
        raise SystemExit(
            "no compute-sanitizer on the path: CUDA's toolkit has it, and so has the package "
            "nvidia-cuda-sanitizer-api; say where it is with --sanitizer"
        )
    tests, report = collect_tests(arguments.k), Report()
    shares = [tests[first :: arguments.processes] for first in range(arguments.processes)]
    with tempfile.TemporaryDirectory() as temporary:
        parts = [
            SanitizerRun(
                arguments.sanitizer,
                tool,
                share,
                Path(temporary) / f"{tool}_{number}",
                arguments.limit_s,
            )
            for tool in arguments.tools
            for number, share in enumerate(filter(None, shares))
        ]
        for part in parts:
            part.wait()
        add_to_report(report, parts)
    version = subprocess.run(
        [arguments.sanitizer, "--version"], capture_output=True, text=True, check=True
    )
    found = describe(select_device("gpu"))
    found["Compute Sanitizer"] = version.stdout.strip().splitlines()[-1].removeprefix("Version ")
    found["limit"] = f"{arguments.limit_s:g} s, {arguments.processes} processes for each tool"
    return report.publish(found, arguments.output)


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(__doc__, "output")
    add = parser.add_argument
    add("--tools", nargs="+", choices=TOOLS, default=["memcheck", "racecheck"])
    add("--sanitizer", default=shutil.which("compute-sanitizer"), help="path of compute-sanitizer")
    add("--processes", type=int, default=8, help="processes for each tool")
    add("--limit-s", type=float, default=600.0, help="seconds after which processes are stopped")
    add("-k", default="", help="select tests, as with pytest's -k")
    add("--part", type=Path, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    start(main, _parser())
