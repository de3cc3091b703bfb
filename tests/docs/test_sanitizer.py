"""Tests under Compute Sanitizer, of which a stand-in is enough: it starts what it is told to."""

from pathlib import Path

import sanitizer

STAND_IN = """#!/bin/sh
while [ "${1##*.}" != py ]; do last="$1"; shift; done
exec "$last" "$@"
"""
TESTS = """
import pytest

@pytest.mark.parametrize("size", [1, 2, 3])
def test_kernel(size, capfd):
    with capfd.disabled():
        if size == 2:
            print("========= Error: Race reported between Read access at kernel+0x10", flush=True)
            print("=========     and Write access at kernel+0x20 [32 hazards]", flush=True)
    assert size != 3
"""


def test_a_finding_is_of_the_test_under_way(tmp_path: Path):
    program, tests = tmp_path / "compute-sanitizer", tmp_path / "test_kernels.py"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    tests.write_text(TESTS)
    chosen = [f"{tests}::test_kernel[{size}]" for size in (1, 2, 3)]
    part = sanitizer.Part(str(program), "racecheck", chosen, tmp_path / "part", limit_s=120)
    part.wait()
    ended = {test[-2]: outcome for test, outcome in part.outcomes().items()}
    assert ended == {"1": "passed", "2": "passed", "3": "failed"}, part.end_of_log()
    ((finding, test),) = part.findings()
    assert finding.startswith("Error: Race reported between Read access at kernel+0x10")
    assert "and Write access at kernel+0x20" in finding
    assert test.endswith("test_kernel[2]")
