"""Install what the project needs into the environment of this Python; see the Makefile.

Only dependencies are installed: the package itself is used from the checkout. uv does in seconds
what takes pip a minute; where it cannot be had, pip does it.
"""

import argparse
import ctypes
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
CONSTRAINTS = ROOT / "constraints.txt"


def main() -> None:
    """Install the dependencies, and those of the extras that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("extras", nargs="*", help="names of extras in pyproject.toml")
    extras = parser.parse_args().extras
    gpu_extra = extra_for_driver(driver_cuda_version())
    if gpu_extra:
        print(f"An NVIDIA driver answers: installing CuPy too (extra {gpu_extra}).", flush=True)
        extras = [*extras, gpu_extra]
    packages = requirements(extras)
    print(f"Installing {len(packages)} packages and what they need ...", flush=True)
    install(packages)


def requirements(extras: list[str]) -> list[str]:
    """What pyproject.toml asks for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    return project["dependencies"] + [line for extra in extras for line in optional[extra]]


def driver_cuda_version() -> int:
    """The newest CUDA that the NVIDIA driver knows, as 13000 for 13.0; 0 where there is none."""
    version = ctypes.c_int()
    try:
        status = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return 0
    return version.value if status == 0 else 0


def extra_for_driver(version: int) -> str:
    """The extra with the CuPy that a driver can run; an empty string for none.

    >>> extra_for_driver(12080), extra_for_driver(13010), extra_for_driver(0)
    ('cuda12', 'cuda13', '')
    """
    major = version // 1000
    if 0 < major < 12:
        print(f"The NVIDIA driver is too old for CuPy (CUDA {major}); expected 12 or newer.")
    return f"cuda{min(major, 13)}" if major >= 12 else ""


def install(packages: list[str]) -> None:
    """Install packages by uv, or by pip where that fails; leaves with pip's exit code."""
    wanted = ["--constraint", str(CONSTRAINTS), *packages]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable]
    uv += ["--compile-bytecode"]  # every job is a process that imports them
    got_uv = subprocess.run([*pip, "--constraint", str(CONSTRAINTS), "uv"], check=False)
    if got_uv.returncode == 0 and subprocess.run([*uv, *wanted], check=False).returncode == 0:
        return
    print("uv could not do it; trying pip, which takes longer.", flush=True)
    sys.exit(subprocess.run([*pip, *wanted], check=False).returncode)


if __name__ == "__main__":
    main()
