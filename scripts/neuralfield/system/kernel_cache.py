"""Cache of compiled kernels on disk; a damaged or missing entry is compiled again.

An entry is one file. Its name contains everything that the compiled code depends on, and it begins
with a SHA-256 of its name and content; an entry that does not match is never executed or unpickled.
If all folders are missing, kernels are compiled every time, with the same results.
"""

import contextlib
import hashlib
import importlib
import os
import stat
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from neuralfield.system.errors import StorageError
from neuralfield.system.files import read_whole, try_lock, write_atomically

_LARGEST_ENTRY_BYTES = 256 << 20
_DIGEST_BYTES = hashlib.sha256().digest_size

_PATIENCE_S = 120.0
_SECONDS_BETWEEN_LOOKS = 0.1


class KernelStore:
    """Cache entries in several folders, which may be missing: the first that works is used.

    It has the interface that CuPy's compiler expects (`cupy.cuda._compiler_cache`).
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = tuple(folders)

    def load(self, name: str) -> bytes | None:
        """Read an entry; return None if no folder has an undamaged one."""
        for folder in self.folders:
            with contextlib.suppress(OSError, ValueError):
                entry = read_whole(folder / name, _LARGEST_ENTRY_BYTES)
                content = entry[_DIGEST_BYTES:]
                if entry[:_DIGEST_BYTES] == _digest(name, content):
                    return content
        return None

    def save(self, name: str, content: bytes, source: str = "") -> None:
        """Write an entry to the first writable folder, and its source if CuPy is set to keep it."""
        for folder in self.folders:
            with contextlib.suppress(OSError, StorageError):
                write_atomically(folder / name, _digest(name, content) + content)
                break
        if source and os.environ.get("CUPY_CACHE_SAVE_CUDA_SOURCE"):
            self.save(f"{name}.cu", source.encode())

    def claim(self, name: str, patience_s: float = _PATIENCE_S) -> IO[bytes] | None:
        """Lock an entry for this process, after waiting for another process that compiles it.

        Without a lock, jobs that begin at the same time would all compile the same kernels. The
        lock ends with `release` or with the process. Returns None if no lock can be created, or if
        another process holds it for too long.
        """
        deadline_s = time.monotonic() + patience_s
        for folder in self.folders:
            with contextlib.suppress(OSError):
                folder.mkdir(parents=True, exist_ok=True)
                file = (folder / f"{name}.lock").open("ab")
                while not try_lock(file):
                    if time.monotonic() > deadline_s:
                        file.close()
                        return None
                    time.sleep(_SECONDS_BETWEEN_LOOKS)
                return file
        return None

    def release(self, lock: IO[bytes] | None) -> None:
        """Release a lock of `claim`, after the entry is written."""
        if lock is not None:
            with contextlib.suppress(OSError):
                Path(str(lock.name)).unlink()
            lock.close()


def private_folders() -> list[Path]:
    """Return [a temporary folder that only this user can write], or [] if it is not safe."""
    try:
        folder = Path(tempfile.gettempdir(), f"neuralfield_{os.geteuid()}")
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        status = folder.lstat()
    except OSError:
        return []
    # another user can guess the name, and code from another user must not be executed
    is_own = status.st_uid == os.geteuid() and not status.st_mode & 0o077
    return [folder] if is_own and stat.S_ISDIR(status.st_mode) else []


def import_cupy() -> ModuleType:
    """Import CuPy, and make it store compiled code in a `KernelStore`.

    CuPy's own cache raises an error if its folder cannot be created, read or written.
    """
    asked = Path(os.environ.get("CUPY_CACHE_DIR") or "~/.cupy/kernel_cache").expanduser()
    # CuPy creates the folder on import, and raises an error if it cannot
    os.environ["CUPY_CACHE_DIR"] = os.sep
    with contextlib.suppress(OSError):
        asked.mkdir(parents=True, exist_ok=True)
        os.environ["CUPY_CACHE_DIR"] = str(asked)
    cupy = importlib.import_module("cupy")
    compiler = cupy.cuda.compiler
    if hasattr(compiler, "_set_kernel_cache_backend"):
        folders = [folder / "neuralfield" for folder in (asked, *private_folders())]
        compiler._set_kernel_cache_backend(KernelStore(folders))
        # CuPy compiles an empty text to find the compiler's exact version, which takes a quarter of
        # a second in each process; names of entries contain the version that is known without this
        compiler._empty_file_preprocess_cache = _NoText()
    elif not os.access(asked, os.R_OK | os.W_OK | os.X_OK):
        os.environ["CUPY_CACHE_IN_MEMORY"] = "1"
    return cupy


class _NoText(dict[Any, str]):
    """A dict that returns an empty text for every key."""

    def get(self, key: Any, default: Any = None) -> str:
        return ""


def _digest(name: str, content: bytes) -> bytes:
    digest: Any = hashlib.sha256(name.encode() + b"\0")
    digest.update(content)
    return digest.digest()
