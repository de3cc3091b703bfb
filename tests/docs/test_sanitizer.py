"""Runs of tests under Compute Sanitizer, replaced by a stand-in that starts the given command."""

from pathlib import Path

import pytest
import sanitizer
from processes import PATIENCE_S

pytestmark = pytest.mark.slow

STAND_IN = """#!/bin/sh
while [ "${1##*.}" != py ]; do last="$1"; shift; done
echo "========= COMPUTE-SANITIZER"
echo "========= Error: before all tests"
exec "$last" "$@"
"""
TESTS = """
import os
import pytest

@pytest.fixture
def says(capfd):
    def say(text):
        with capfd.disabled():
            print(text, flush=True)
    return say

def test_clean(says):
    says("========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)")

def test_race(says):
    says("========= Error: Race reported between Read access at kernel+0x10")
    says("=========     and Write access at kernel+0x20 [32 hazards]")

@pytest.fixture
def reported_late(says):
    yield
    says("========= Error: behind the dot")

def test_reported_late(reported_late):
    pass

def test_failing():
    assert False

def test_crashing():
    os._exit(9)"""


def started(tmp_path: Path, names: list[str]) -> sanitizer.SanitizerRun:
    """Start some of the tests under the stand-in."""
    program, tests = tmp_path / "compute-sanitizer", tmp_path / "test_kernels.py"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    tests.write_text(TESTS)
    chosen = [f"{tests}::test_{name}" for name in names]
    return sanitizer.SanitizerRun(str(program), "racecheck", chosen, tmp_path / "part", PATIENCE_S)


def names_of(items: dict[str, str]) -> dict[str, str]:
    return {test.rsplit("test_", 1)[1]: outcome for test, outcome in items.items()}


def test_findings_are_reported_wherever_they_stand(tmp_path: Path):
    part = started(tmp_path, ["clean", "race", "reported_late", "failing"])
    part.wait()
    assert part.failure() == ""
    ended = {"clean": "passed", "race": "passed", "reported_late": "passed", "failing": "failed"}
    assert names_of(part.outcomes()) == ended
    findings = [(text.splitlines(), test.split("::test_")[-1]) for text, test in part.findings()]
    assert findings == [
        (["Error: before all tests"], "what comes before all tests"),
        (
            [
                "Error: Race reported between Read access at kernel+0x10",
                "=========     and Write access at kernel+0x20 [32 hazards]",
            ],
            "race",
        ),
        (["Error: behind the dot"], "reported_late"),
    ]


def test_a_crash_is_no_clean_report(tmp_path: Path):
    part = started(tmp_path, ["clean", "crashing", "race"])
    part.wait()
    assert names_of(part.outcomes()) == {"clean": "passed", "crashing": "unfinished"}
    assert "broke off in" in part.failure() and "test_crashing" in part.failure()
