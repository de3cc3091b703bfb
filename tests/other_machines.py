"""Run the tests as other machines and users would run them, and print a table of the outcomes.

    python tests/other_machines.py                    # every setting, every test that needs no GPU
    python tests/other_machines.py --settings nehalem zen -- tests/unit -x

Each setting combines changes that hardly affect each other: the vector instructions that OpenBLAS,
NumPy and Numba use, random seeds, the order of the tests, the number of threads, the path, the
user, the language, the permissions of new files, and no network. The tests run in a copy of the
checkout. Settings that this machine does not support (because its processor has no AVX-512, or the
user is not root) are listed and skipped. Exits with 1 if any test fails.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOBODY = "65534"
NO_AVX2 = "X86_V3 X86_V4 AVX512_ICL AVX512_SPR"
NO_AVX512 = "X86_V4 AVX512_ICL AVX512_SPR"


@dataclass(frozen=True)
class Machine:
    """How a simulated machine or user differs from this one; the last two need root."""

    about: str
    environment: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    folder: str = "neuralfield"
    umask: int = 0o022
    no_network: bool = False
    other_user: bool = False

    def obstacle(self) -> str:
        """Return why this machine cannot run the setting, or an empty string if it can."""
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
        if self.environment.get("OPENBLAS_CORETYPE") == "SkylakeX" and "avx512f" not in flags:
            return "this processor has no AVX-512"
        if (self.no_network or self.other_user) and os.getuid() != 0:
            return "only root can take away the network or become another user"
        if self.other_user and not _can_run_python(self.prefix()):
            return f"another user may not run {sys.executable}"
        return ""

    def prefix(self) -> list[str]:
        """Return the commands that wrap the test command."""
        network = ["unshare", "--net", "--"] if self.no_network else []
        become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        return network + (become if self.other_user else [])


def _threads(count: int) -> dict[str, str]:
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
    return dict.fromkeys(names, str(count))


SETTINGS = {
    "as it is": Machine("nothing"),
    "haswell": Machine(
        "OpenBLAS for Haswell, NumPy without AVX-512, umask 077, other random seeds",
        {
            "OPENBLAS_CORETYPE": "Haswell",
            "NPY_DISABLE_CPU_FEATURES": NO_AVX512,
            "NEURALFIELD_TEST_SEED": "1",
        },
        umask=0o077,
    ),
    "zen": Machine(
        "OpenBLAS for Zen, Numba for Haswell, random order, a path with a space and an umlaut",
        {
            "OPENBLAS_CORETYPE": "Zen",
            "NUMBA_CPU_NAME": "haswell",
            "NUMBA_CPU_FEATURES": "+avx2,+fma",
        },
        ("-p", "randomly", "--randomly-seed=1"),
        folder="mein Löwe",
    ),
    "nehalem": Machine(
        "OpenBLAS for Nehalem, NumPy and Numba without AVX2 and FMA, LANG=C",
        {
            "OPENBLAS_CORETYPE": "Nehalem",
            "NPY_DISABLE_CPU_FEATURES": NO_AVX2,
            "NUMBA_CPU_NAME": "nehalem",
            "NUMBA_CPU_FEATURES": "-avx,-avx2,-fma",
            "LC_ALL": "C",
            "LANG": "C",
        },
    ),
    "skylakex": Machine(
        "OpenBLAS for Skylake-X, another user than root, no network",
        {"OPENBLAS_CORETYPE": "SkylakeX"},
        no_network=True,
        other_user=True,
    ),
    "user": Machine(
        "another user than root, no network, 1 thread, other random seeds",
        {**_threads(1), "NEURALFIELD_TEST_SEED": "2"},
        no_network=True,
        other_user=True,
    ),
    "threads": Machine(
        "4 threads, random order, umask 077",
        _threads(4),
        ("-p", "randomly", "--randomly-seed=2"),
        umask=0o077,
    ),
}


def main() -> None:
    """Run the tests in every requested setting."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--processes", type=int, default=2, help="tests at the same time")
    parser.add_argument("pytest", nargs="*", help="after --: options and paths for pytest")
    given = parser.parse_args()
    rows, failed = [], False
    for name in given.settings:
        setting = SETTINGS[name]
        obstacle = setting.obstacle()
        if obstacle:
            rows.append((name, setting.about, f"left out: {obstacle}"))
            continue
        began_s = time.monotonic()
        code, outcome = run_tests(setting, given.processes, given.pytest)
        failed |= code != 0
        rows.append((name, setting.about, f"{outcome} (exit code {code})"))
        print(f"{name}: {outcome}, {time.monotonic() - began_s:.0f} s", flush=True)
    print("\n| setting | what is different | outcome |\n|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    sys.exit(failed)


def run_tests(setting: Machine, processes: int, options: list[str]) -> tuple[int, str]:
    """Run pytest in a copy of the checkout, and return its exit code and its last line."""
    with tempfile.TemporaryDirectory(prefix="neuralfield_") as parent:
        home = Path(parent, "home")
        checkout = Path(parent, setting.folder)
        home.mkdir()
        _copy_checkout(checkout)
        environment = os.environ | setting.environment
        environment |= {"HOME": str(home), "TMPDIR": parent, "PYTHONDONTWRITEBYTECODE": "1"}
        if setting.other_user:
            subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", parent], check=True)
        command = [*setting.prefix(), sys.executable, "-m", "pytest", "-q", "-ra"]
        command += ["--numprocesses", str(processes), "--dist", "loadfile"]
        command += ["--no-loadscope-reorder", "-m", "not fuzz and not cluster"]
        command += [*setting.options, *options]
        messages = subprocess.Popen(
            command,
            cwd=checkout,
            env=environment,
            umask=setting.umask,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        assert messages.stdout
        last_line = ""
        for line in messages.stdout:
            if re.match(r"FAILED|ERROR|E  ", line):
                print(line, end="", flush=True)
            last_line = line.strip().strip("= ") or last_line
        return messages.wait(), last_line


def _copy_checkout(target: Path) -> None:
    """Copy the files that git tracks or would add."""
    list_files = ["git", "-C", str(ROOT), "ls-files", "-z", "-co", "--exclude-standard"]
    listed = subprocess.run(list_files, capture_output=True, check=True).stdout
    for name in filter(lambda name: Path(ROOT, name).is_file(), listed.decode().split("\0")):
        Path(target, name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(Path(ROOT, name), Path(target, name))


def _can_run_python(prefix: list[str]) -> bool:
    command = [*prefix, sys.executable, "-c", "import numpy"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    main()
