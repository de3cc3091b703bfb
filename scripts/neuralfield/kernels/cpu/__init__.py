"""Kernels for processors, compiled by Numba when they are first needed, and kept on disk.

Everything that is compiled lives in this package, and is kept in a folder that is named after the
text of all its files: compiled code that is out of date can never be met.
"""

import atexit
import contextlib
import fcntl
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

import llvmlite.binding
import numba
import numba.core.caching
import numba.core.config

CACHE_VARIABLE = "NEURALFIELD_CACHE_DIR"
"""Environment variable that names another folder for what is compiled."""


def _text_digest() -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def cache_folder() -> Path:
    """The first folder that can be written to: a new one for this process alone if none can."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111
    parents = [Path(given)] if (given := os.environ.get(CACHE_VARIABLE)) else []
    for parent in (*parents, Path(home) / "neuralfield"):
        folder = parent / f"cpu_kernels_{_text_digest()}"
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return folder
    folder = tempfile.TemporaryDirectory(prefix="neuralfield_")
    atexit.register(folder.cleanup)
    return Path(folder.name)


def _use_whole_vectors() -> None:
    """Have loops use all of AVX-512's registers: by default LLVM leaves half of each empty."""
    config: Any = numba.core.config
    features = llvmlite.binding.get_host_cpu_features()
    if features.get("avx512f") and not (config.CPU_NAME or config.CPU_FEATURES):
        config.CPU_NAME = llvmlite.binding.get_host_cpu_name()
        config.CPU_FEATURES = f"{features.flatten()},-prefer-256-bit"


def _save_one_at_a_time(folder: Path) -> None:
    """Have processes that compile at the same time keep what they compile one after the other.

    Numba numbers the versions of a function in the order in which they are kept. Two processes that
    look up the next number at the same time write different versions to one file, and whoever
    reads it later calls the wrong one.
    """
    save = numba.core.caching.IndexDataCacheFile.save

    def save_alone(self: Any, key: Any, data: Any) -> None:
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError):  # no locks here, or no right to write
                lock = stack.enter_context((folder / "lock").open("w"))
                fcntl.flock(lock, fcntl.LOCK_EX)
            save(self, key, data)

    numba.core.caching.IndexDataCacheFile.save = save_alone


_CACHE_FOLDER = cache_folder()
numba.core.config.CACHE_DIR = str(_CACHE_FOLDER)  # pyright: ignore[reportAttributeAccessIssue]
_use_whole_vectors()
_save_one_at_a_time(_CACHE_FOLDER)
