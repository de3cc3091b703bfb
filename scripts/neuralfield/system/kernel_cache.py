"""Compiled kernels on disk: what is damaged, or cannot be kept, is compiled again.

An entry is one file, whose name says all that the compiled code depends on, and which begins with
a SHA-256 of its name and its content. Nothing is run, or unpickled, that does not match. No folder
has to be there: a run without any of them is slower, and has the same results.
"""

import contextlib
import hashlib
import importlib
import os
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from neuralfield.system.errors import StorageError
from neuralfield.system.files import read_whole, write_atomically

_LARGEST_ENTRY_BYTES = 256 << 20
_DIGEST_BYTES = hashlib.sha256().digest_size


class KernelStore:
    """Entries in the first of some folders that has them, or takes them.

    Parameters
    ----------
    folders : sequence of Path
        They need not exist.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = tuple(folders)

    def load(self, name: str) -> bytes | None:
        """Read an entry; None where there is none that is whole."""
        for folder in self.folders:
            with contextlib.suppress(OSError, ValueError):
                entry = read_whole(folder / name, _LARGEST_ENTRY_BYTES)
                content = entry[_DIGEST_BYTES:]
                if entry[:_DIGEST_BYTES] == _digest(name, content):
                    return content
        return None

    def save(self, name: str, content: bytes) -> None:
        """Keep an entry where that is possible."""
        for folder in self.folders:
            with contextlib.suppress(OSError, StorageError):
                write_atomically(folder / name, _digest(name, content) + content)
                return


def private_folders() -> list[Path]:
    """Return a folder for this user alone among the temporary files; none where it is not safe."""
    try:
        folder = Path(tempfile.gettempdir(), f"neuralfield_{os.geteuid()}")
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        status = folder.lstat()
    except OSError:
        return []
    # the name is known to everybody: code that somebody else has put there must not be run
    is_own = status.st_uid == os.geteuid() and not status.st_mode & 0o077
    return [folder] if is_own and stat.S_ISDIR(status.st_mode) else []


def import_cupy() -> ModuleType:
    """Import CuPy, and have it keep what it compiles in a `KernelStore`.

    CuPy's own cache stops a program where its folder cannot be made, read or written to.
    """
    asked = Path(os.environ.get("CUPY_CACHE_DIR") or "~/.cupy/kernel_cache").expanduser()
    # CuPy makes the folder when it is imported, and fails where that cannot be
    os.environ["CUPY_CACHE_DIR"] = str(asked) if _can_be_made(asked) else os.sep
    cupy = importlib.import_module("cupy")
    compiler = cupy.cuda.compiler
    if hasattr(compiler, "_set_kernel_cache_backend"):
        folders = [folder / "neuralfield" for folder in (asked, *private_folders())]
        compiler._set_kernel_cache_backend(CupyCache(KernelStore(folders)))
    elif not os.access(asked, os.R_OK | os.W_OK | os.X_OK):
        os.environ["CUPY_CACHE_IN_MEMORY"] = "1"
    return cupy


class CupyCache:
    """A `KernelStore` as CuPy's compiler wants one (`cupy.cuda._compiler_cache`)."""

    def __init__(self, store: KernelStore) -> None:
        self._store = store

    def load(self, name: str) -> bytes | None:
        """Read compiled code; None where there is none that is whole."""
        return self._store.load(name)

    def save(self, name: str, cubin: bytes, source: str) -> None:
        """Keep compiled code, and its source text where ``CUPY_CACHE_SAVE_CUDA_SOURCE`` is set."""
        self._store.save(name, cubin)
        if os.environ.get("CUPY_CACHE_SAVE_CUDA_SOURCE"):
            self._store.save(f"{name}.cu", source.encode())


def _can_be_made(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return True


def _digest(name: str, content: bytes) -> bytes:
    digest: Any = hashlib.sha256(name.encode() + b"\0")
    digest.update(content)
    return digest.digest()
