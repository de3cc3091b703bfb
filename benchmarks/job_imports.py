"""Measures the processor time that each script needs to start, since every job is a process.

    python benchmarks/job_imports.py --limit 8

prints a row for each script in scripts/: the milliseconds of processor time until the script is
imported as Snakemake starts it, without those of an empty Python process; the same time as a
multiple of the time of importing NumPy, which depends less on the machine; and the number of
imported modules. It exits with 1 if a multiple is above `--limit`. Times are the minimum of several
rounds.
"""

import argparse
import os
import resource
import subprocess
import sys
from pathlib import Path

from measuring import ROOT
from measuring.command_line import new_parser, start
from measuring.measure import print_header, print_row

SCRIPTS = ROOT / "scripts"

_PREAMBLE = "import pickle, snakemake.script, snakemake.logging, snakemake.iocontainers"
"""The imports that Snakemake writes above each script."""

_START = f"{_PREAMBLE}, runpy, sys; sys.path.insert(0, sys.argv[1])"
_IMPORT = f"{_START}; runpy.run_path(sys.argv[2], run_name='imported')"
_COUNT = f"{_IMPORT}; print(len(sys.modules))"


def processor_time_ms(code: str, *arguments: str) -> float:
    """Run Python on some code, and return the processor time of its process in milliseconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code, *arguments], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return 1e3 * used_s


def module_count(script: Path) -> int:
    """Count the modules that a script's process has imported."""
    command = [sys.executable, "-c", _COUNT, os.fspath(SCRIPTS), os.fspath(script)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main(options: argparse.Namespace) -> int:
    """Print the table; 1 if a script is above the limit."""
    scripts = sorted(SCRIPTS.glob("*.py"))
    least = {path: float("inf") for path in scripts}
    empty_ms = numpy_ms = float("inf")
    for _ in range(options.rounds):
        empty_ms = min(empty_ms, processor_time_ms("pass"))
        numpy_ms = min(numpy_ms, processor_time_ms("import numpy"))
        for path in scripts:
            arguments = (os.fspath(SCRIPTS), os.fspath(path))
            least[path] = min(least[path], processor_time_ms(_IMPORT, *arguments))
    numpy_ms -= empty_ms
    print_header("script", "milliseconds", "times NumPy", "modules")
    times = {path: (total_ms - empty_ms) / numpy_ms for path, total_ms in least.items()}
    for path in sorted(scripts, key=lambda path: -times[path]):
        taken_ms = f"{least[path] - empty_ms:.0f}"
        print_row(path.stem, taken_ms, f"{times[path]:.1f}", str(module_count(path)))
    above = [path.stem for path in scripts if options.limit and times[path] > options.limit]
    if above:
        print(f"above {options.limit:g} times NumPy: {', '.join(above)}", file=sys.stderr)
    return int(bool(above))


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(__doc__)
    add = parser.add_argument
    add("--rounds", type=int, default=3, help="number of rounds; the minimum is reported")
    add("--limit", type=float, help="maximum time of a script, as a multiple of NumPy's import")
    return parser


if __name__ == "__main__":
    start(main, _parser())
