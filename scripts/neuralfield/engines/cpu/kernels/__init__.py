"""Kernels for processors, compiled by Numba when they are first needed, and kept on disk.

Everything that is compiled lives in this package, and is kept in a folder that is named after the
text of all its files: compiled code that is out of date can never be met.
"""

import hashlib
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import llvmlite
import llvmlite.binding
import numba
import numba.core.caching
import numba.core.config
from numba.core.compiler import CompileResult
from numba.core.runtime.nrt import rtsys
from numba.core.serialize import dumps

from neuralfield.system.kernel_cache import KernelStore, private_folders

CACHE_VARIABLE = "NEURALFIELD_CACHE_DIR"
"""Environment variable that names another folder for what is compiled."""

_SETTINGS = ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK", "USING_SVML")
"""Parts of Numba's configuration that compiled code depends on, beside the processor."""


def entry_point(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls, for each kind of arguments, and keep it on disk."""
    kernel: Any = numba.njit(nogil=True)(function)
    kernel._cache = KernelCache(function, STORE)
    return kernel


def cache_folders() -> list[Path]:
    """List the folders in which compiled kernels are looked for and kept, in this order."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111
    parents = [Path(given).absolute()] if (given := os.environ.get(CACHE_VARIABLE)) else []
    # a home that is not known stays "~", and would be made in the working directory
    parents += [Path(home, "neuralfield")] if Path(home).is_absolute() else []
    name = f"cpu_kernels_{_text_digest()}"
    return [parent / name for parent in (*parents, *private_folders())]


class KernelCache(numba.core.caching.Cache):
    """Keeps compiled versions of a function in a `KernelStore`, each under a name of its own.

    Numba's own files have no checksums, and an index that processes overwrite for each other.
    """

    def __init__(self, function: Callable[..., Any], store: KernelStore) -> None:
        self._py_func = function
        self._name = repr(function)
        self._store = store
        self._cache_path = str(store.folders[0]) if store.folders else None
        self._lock: IO[bytes] | None = None
        self.enable()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load the version for some types, once no other process compiles it; None: compile it."""
        rtsys.initialize(target_context)
        name = self.entry_name(sig, target_context.codegen())
        found = self._load(name, target_context)
        if found is None and self._enabled:
            self._lock = self._store.claim(name)
            found = self._load(name, target_context)
            if found is not None:
                self._store.release(self._lock)
        if found is None:
            # compiling starts with it anyway; loading does without these 0.4 s of imports
            target_context.refresh()
        return found

    def _load(self, name: str, target_context: Any) -> Any:
        content = self._store.load(name)
        if content is None or not self._enabled:
            return None
        try:
            return CompileResult._rebuild(target_context, *pickle.loads(content))
        except Exception:  # written by something else under the same versions: compiled again
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a version, unless it is of use to this process only."""
        if self._enabled and not data.library.has_dynamic_globals:
            self._store.save(self.entry_name(sig, data.codegen), dumps(data._reduce()))
        self._store.release(self._lock)

    def flush(self) -> None:
        """Do nothing: old versions are under other names."""

    def entry_name(self, sig: Any, codegen: Any) -> str:
        """Return a file's name: one for each version, kind of processor and way to compile.

        Code for instructions that this processor does not have would end the process. What is
        compiled for is part of the key, whether Numba has found it or environment variables say it.
        """
        config: Any = numba.core.config
        settings = [repr(getattr(config, name, None)) for name in _SETTINGS]
        key = repr((self._index_key(sig, codegen), settings))
        return f"{self._py_func.__qualname__}-{hashlib.sha256(key.encode()).hexdigest()[:32]}"


def _text_digest() -> str:
    versions = numba.__version__, llvmlite.__version__, sys.implementation.cache_tag
    digest = hashlib.sha256(" ".join(map(str, versions)).encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _use_whole_vectors() -> None:
    """Let loops use all of AVX-512's registers: by default LLVM leaves half of each empty."""
    config: Any = numba.core.config
    features = llvmlite.binding.get_host_cpu_features()
    if features.get("avx512f") and not (config.CPU_NAME or config.CPU_FEATURES):
        config.CPU_NAME = llvmlite.binding.get_host_cpu_name()
        config.CPU_FEATURES = f"{features.flatten()},-prefer-256-bit"


STORE = KernelStore(cache_folders())
_use_whole_vectors()
