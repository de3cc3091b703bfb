"""Time an installation of the wheel in a new environment, and the first lines of docs/library.md.

    python benchmarks/clean_install.py
    python benchmarks/clean_install.py --python python3.12 python3.13

builds the wheel, then prints a row for each Python: seconds to install the wheel and its
dependencies with pip, without pip's cache and without a compiler; seconds of the lines, in a
process without compiled kernels; the sum of both, and its processor time, which other load on the
machine hardly changes; and the size on the disk. It exits with 1 if the sum exceeds `--limit-s`.
"""

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measuring import ROOT
from measuring.command_line import new_parser, start
from measuring.measure import print_header, print_row
from PIL import Image

from neuralfield.system.device import select_device

_LEFT_OUT = (".git", ".venv", ".snakemake", "results", "logs", "__pycache__", "build", "dist")
_PHOTO = ROOT / "workflow/resources/savannah.png"


def build_distributions(folder: Path) -> tuple[Path, Path]:
    """Build the wheel and the source distribution from a copy of the project in a folder."""
    shutil.copytree(ROOT, folder / "project", ignore=shutil.ignore_patterns(*_LEFT_OUT))
    (folder / "project/results").mkdir()
    build = [sys.executable, "-m", "uv", "build", "--quiet", "--out-dir", folder / "dist"]
    subprocess.run([*build, folder / "project"], check=True)
    return next(folder.glob("dist/*.whl")), next(folder.glob("dist/*.tar.gz"))


def first_lines() -> str:
    """Return the first snippet of the page on the package."""
    page = (ROOT / "docs/library.md").read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]


def seconds_of(command: list[str | Path], folder: Path) -> tuple[float, float]:
    """Run a program of the environment in a folder; return its seconds, and processor seconds.

    The search path has only the programs of the environment, so that no compiler is found.
    """
    environment = {"PATH": os.fspath(folder / "clean/bin"), "HOME": os.fspath(folder)}
    before, began_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    program = [folder / "clean/bin/python", *command]
    subprocess.run(program, check=True, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
    elapsed_s, after = time.monotonic() - began_s, resource.getrusage(resource.RUSAGE_CHILDREN)
    return elapsed_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def row_of(python: str, wheel: Path, folder: Path) -> tuple[float, list[str]]:
    """Install into a new environment and run the lines; return the seconds and the table's row."""
    ask = [python, "-c", "import platform; print(platform.python_version())"]
    version = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
    subprocess.run([python, "-m", "venv", folder / "clean"], check=True)
    with Image.open(_PHOTO) as image:
        image.convert("RGB").save(folder / "photo.jpg", quality=95)
    pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
    install_s, install_processor_s = seconds_of([*pip, wheel], folder)
    lines_s, lines_processor_s = seconds_of(["-c", first_lines()], folder)
    together_s, processor_s = install_s + lines_s, install_processor_s + lines_processor_s
    files = (path for path in (folder / "clean").rglob("*") if path.is_file())
    megabytes = sum(path.stat().st_size for path in files if not path.is_symlink()) / 1e6
    seconds = [f"{value:.0f}" for value in (install_s, lines_s, together_s, processor_s)]
    return together_s, [version, *seconds, f"{megabytes:.0f}"]


def main(options: argparse.Namespace) -> int:
    """Print the table; return 1 if an installation takes longer than the limit."""
    slowest_s = 0.0
    print(f"{select_device('cpu').name}, {os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}\n")
    with tempfile.TemporaryDirectory() as temporary:
        wheel, _ = build_distributions(Path(temporary))
        seconds = ("pip install, s", "the lines, s", "together, s", "processor, s")
        print_header("Python", *seconds, "MB on the disk")
        for number, python in enumerate(options.python):
            folder = Path(temporary, str(number))
            folder.mkdir()
            together_s, row = row_of(python, wheel, folder)
            slowest_s = max(slowest_s, together_s)
            print_row(*row)
    return int(slowest_s > options.limit_s)


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(__doc__)
    add = parser.add_argument
    add("--python", nargs="+", default=[sys.executable], help="interpreters to install into")
    add("--limit-s", type=float, default=120.0, help="maximum seconds of an installation")
    return parser


if __name__ == "__main__":
    start(main, _parser())
