"""Writing files so that they are there whole or not at all."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: str | os.PathLike) -> Iterator[Path]:
    """A temporary name beside `path`, to be written to.

    When the block ends well, the file is synced and takes its final name, in one step: a crash at
    any moment leaves the old file or the new one. When the block raises, it is removed.

    Parameters
    ----------
    path : str or os.PathLike
        The final name; its folder is made if it is missing.

    Yields
    ------
    Path
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        _sync(temporary)
        temporary.replace(path)
        _sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: str | os.PathLike, content: bytes) -> None:
    """Write a whole file; see `replacing`."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
