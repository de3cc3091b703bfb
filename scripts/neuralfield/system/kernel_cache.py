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
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from neuralfield.system.errors import StorageError
from neuralfield.system.files import read_whole, write_atomically

_LARGEST_ENTRY_BYTES = 256 << 20
_DIGEST_BYTES = hashlib.sha256().digest_size


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
        """Write an entry to the first writable folder; CuPy also passes the source, which is not
        stored."""
        for folder in self.folders:
            with contextlib.suppress(OSError, StorageError):
                write_atomically(folder / name, _digest(name, content) + content)
                break


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
    folders = [folder / "neuralfield" for folder in (asked, *private_folders())]
    cupy.cuda.compiler._set_kernel_cache_backend(KernelStore(folders))
    # CuPy compiles an empty text to find the compiler's exact version, which takes a quarter of a
    # second in each process; names of entries contain the version that is known without this
    cupy.cuda.compiler._empty_file_preprocess_cache = _NoText()
    return cupy


class _NoText(dict[Any, str]):
    """A dict that returns an empty text for every key."""

    def get(self, key: Any, default: Any = None) -> str:
        return ""


def _digest(name: str, content: bytes) -> bytes:
    digest: Any = hashlib.sha256(name.encode() + b"\0")
    digest.update(content)
    return digest.digest()
