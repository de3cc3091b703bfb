"""Functions that Numba compiles when they are first needed, and their cache on disk.

The name of a cache folder has a digest of the text of the files that define the functions, so that
outdated compiled code is never loaded.
"""

import hashlib
import os
import pickle
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

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
"""Environment variable that names another folder for compiled code."""

_SETTINGS = ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK", "USING_SVML")
"""Parts of Numba's configuration, other than the processor, that compiled code depends on."""


def compiler_of(
    name: str, sources: Iterable[Path], *key: object
) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator for functions that Python calls.

    It compiles a function for each set of argument types, and caches it on disk in folders whose
    name begins with `name`. Compiled code depends on the text of `sources`, files, and on `key`.
    """
    store = KernelStore(cache_folders(f"{name}_{_text_digest(sources, key)}"))

    def entry_point(function: Callable[..., Any]) -> Any:
        kernel: Any = numba.njit(nogil=True)(function)
        kernel._cache = KernelCache(function, store)
        return kernel

    return entry_point


def cache_folders(name: str) -> list[Path]:
    """List the folders in which compiled kernels are looked up and saved, in this order."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111
    parents = [Path(given).absolute()] if (given := os.environ.get(CACHE_VARIABLE)) else []
    # an unknown home directory stays "~", which would be created in the working directory
    parents += [Path(home, "neuralfield")] if Path(home).is_absolute() else []
    return [parent / name for parent in (*parents, *private_folders())]


class KernelCache(numba.core.caching.Cache):
    """Keeps compiled versions of a function in a `KernelStore`, each under its own name.

    It replaces Numba's own cache, whose files have no checksums, and in which concurrent processes
    overwrite each other's index.
    """

    def __init__(self, function: Callable[..., Any], store: KernelStore) -> None:
        self._py_func = function
        self._name = repr(function)
        self._store = store
        self._cache_path = str(store.folders[0]) if store.folders else None
        self.enable()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load the version for some types; return None if it has to be compiled."""
        rtsys.initialize(target_context)
        name = self.entry_name(sig, target_context.codegen())
        found = self._load(name, target_context)
        if found is None:
            # compilation begins with this call anyway; a cached kernel avoids its 0.4 s of imports
            target_context.refresh()
        return found

    def _load(self, name: str, target_context: Any) -> Any:
        content = self._store.load(name)
        if content is None or not self._enabled:
            return None
        try:
            return CompileResult._rebuild(target_context, *pickle.loads(content))
        except Exception:  # not written by this code, despite equal versions: compiled again
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save a version, unless only this process can use it."""
        if self._enabled and not data.library.has_dynamic_globals:
            self._store.save(self.entry_name(sig, data.codegen), dumps(data._reduce()))

    def flush(self) -> None:
        """Do nothing: old versions are under other names."""

    def entry_name(self, sig: Any, codegen: Any) -> str:
        """Return a file's name, which is unique to the version, the processor and the settings.

        Code with instructions that this processor does not have would crash the process. The target
        processor is therefore part of the key, whether Numba has detected it or environment
        variables set it.
        """
        config: Any = numba.core.config
        settings = [repr(getattr(config, name, None)) for name in _SETTINGS]
        key = repr((self._index_key(sig, codegen), settings))
        return f"{self._py_func.__qualname__}-{hashlib.sha256(key.encode()).hexdigest()[:32]}"


def _text_digest(sources: Iterable[Path], key: tuple[object, ...]) -> str:
    versions = numba.__version__, llvmlite.__version__, sys.implementation.cache_tag
    digest = hashlib.sha256(repr((versions, *key)).encode())
    for path in sorted(sources):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _use_whole_vectors() -> None:
    """Let loops use the full width of AVX-512 registers: by default LLVM uses only half of it."""
    config: Any = numba.core.config
    features = llvmlite.binding.get_host_cpu_features()
    if features.get("avx512f") and not (config.CPU_NAME or config.CPU_FEATURES):
        config.CPU_NAME = llvmlite.binding.get_host_cpu_name()
        config.CPU_FEATURES = f"{features.flatten()},-prefer-256-bit"


_use_whole_vectors()
