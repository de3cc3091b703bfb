"""Install the project's dependencies into the environment of this Python; see the Makefile.

Only dependencies are installed: the package itself is used from the checkout, and Snakemake's
logger plugin by a link to it. uv installs them in seconds, and pip in a minute; pip is used if uv
cannot be installed.
"""

import argparse
import ctypes
import importlib.util
import os
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
LOGGER_PLUGIN = ROOT / "scripts" / "snakemake_logger_plugin_neuralfield"

IMPORTED = (
    "snakemake.cli, snakemake.report.html_reporter, smart_open, jinja2, pygments, jsonschema",
    "numba, numba.np.arrayobj, numba.cpython.randomimpl, PIL.Image, pyvips, safetensors.numpy,"
    " tqdm, threadpoolctl, av, pandas, matplotlib.backends.backend_agg",
)
"""Modules that the workflow imports, in two lists that take two cores equally long to compile."""

_KEEP_NOTHING = "PYTHONDONTWRITEBYTECODE"


def main() -> None:
    """Install the dependencies of the workflow and of the named extras."""
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
    link_plugin()


def requirements(extras: list[str]) -> list[str]:
    """Return the requirements in pyproject.toml of the package, the workflow and the extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    wanted = [line for extra in ("workflow", *extras) for line in optional[extra]]
    return project["dependencies"] + wanted


def driver_cuda_version() -> int:
    """Return the newest CUDA version that the driver supports, as 13000 for 13.0; 0 without one."""
    version = ctypes.c_int()
    try:
        status = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return 0
    return version.value if status == 0 else 0


def extra_for_driver(version: int) -> str:
    """Return the extra with the CuPy version that a driver supports; an empty string for none.

    >>> extra_for_driver(12080), extra_for_driver(13010), extra_for_driver(0)
    ('cuda12', 'cuda13', '')
    """
    major = version // 1000
    if 0 < major < 12:
        print(f"The NVIDIA driver is too old for CuPy (CUDA {major}); expected 12 or newer.")
    return f"cuda{min(major, 13)}" if major >= 12 else ""


def install(packages: list[str]) -> None:
    """Install packages with uv, or with pip if uv fails; exit with pip's exit code if pip fails."""
    wanted = ["--constraint", str(CONSTRAINTS), *packages]
    options = ["install", "--quiet", "--disable-pip-version-check"]
    get_uv = [*pip_command(), *options, "--no-compile", "--constraint", str(CONSTRAINTS), "uv"]
    uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable]
    if run(get_uv) != 0 or run([*uv, *wanted]) != 0:
        print("uv could not do it; trying pip, which takes longer.", flush=True)
        # an installed pip can also be called by users, unlike the bundled wheel
        run([sys.executable, "-m", "ensurepip"])
        if status := run([*pip_command(), *options, *wanted]):
            sys.exit(status)
    keep_bytecode()


def link_plugin() -> None:
    """Link the logger plugin where Snakemake finds it, unless it is installed with the package."""
    link = Path(sysconfig.get_path("purelib")) / LOGGER_PLUGIN.name
    if link.is_symlink() or not link.exists():
        link.unlink(missing_ok=True)
        link.symlink_to(LOGGER_PLUGIN)


def pip_command() -> list[str]:
    """Return a command that runs the installed pip, or else the wheel that Python bundles.

    Running the wheel takes less time than installing it.
    """
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    bundled = importlib.util.find_spec("ensurepip")
    places = [sysconfig.get_config_var("WHEEL_PKG_DIR")]
    places += [Path(bundled.origin).parent / "_bundled"] if bundled and bundled.origin else []
    wheels = sorted(wheel for place in places if place for wheel in Path(place).glob("pip-*.whl"))
    if not wheels:
        sys.exit(
            f"pip: not found in {sys.base_prefix}; expected Python with ensurepip; install it"
            " (Debian, Ubuntu: apt install python3-venv), and run the same command again"
        )
    return [sys.executable, str(wheels[-1] / "pip")]


def keep_bytecode() -> None:
    """Import the modules that the workflow imports, so that Python caches their bytecode.

    Every job is a process that imports these modules. If bytecode is disabled, as it often is in
    containers, each job would otherwise compile them again. Compiling all installed modules would
    take four times as long.
    """
    environment = {name: text for name, text in os.environ.items() if name != _KEEP_NOTHING}
    imports = [[sys.executable, "-c", f"import {modules}"] for modules in IMPORTED]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    started = [subprocess.Popen(command, env=environment, **quiet) for command in imports]
    for process in started:
        process.wait()


def run(command: list[str]) -> int:
    """Run a command, and return its exit code."""
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    main()
