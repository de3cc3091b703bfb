"""Atomic writing of files, with clear errors if it fails.

It relies on two properties of file systems: a rename within a folder is atomic, and a synced file
survives a crash.
"""

import contextlib
import csv
import errno
import fcntl
import io
import json
import os
import re
import shutil
import socket
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from neuralfield.system.errors import StorageError

_AGAIN = "run the same command again to resume"
_REMEDIES = {
    errno.ENOSPC: ("free space on the disk", f"free some space, then {_AGAIN}"),
    errno.EDQUOT: ("space within your quota", f"free some space, then {_AGAIN}"),
    errno.EFBIG: (
        "a file system and a limit that allow files of this size",
        f"raise the limit (ulimit -f) or write to another disk, then {_AGAIN}",
    ),
    errno.EROFS: ("a folder that can be written to", f"mount it for writing, then {_AGAIN}"),
    errno.EACCES: ("permission to do so", f"change the permissions, then {_AGAIN}"),
    errno.EPERM: ("permission to do so", f"change the permissions, then {_AGAIN}"),
    errno.EIO: ("a disk or network that works", f"check the system log, then {_AGAIN}"),
    errno.ESTALE: ("a network file system that responds", f"wait until it does, then {_AGAIN}"),
    errno.ETIMEDOUT: ("a network file system that responds", f"wait until it does, then {_AGAIN}"),
    errno.ENAMETOOLONG: ("a shorter path", "use shorter names, or a folder nearer to the root"),
    errno.ENOENT: ("a folder that keeps new files", "write to another folder"),
    errno.ENOTDIR: ("only folders in its path", "move away the file in place of a folder"),
    errno.EEXIST: ("a folder", "move away the file in its place"),
    errno.EISDIR: ("a file", "move away the folder in its place"),
    errno.EMFILE: ("fewer open files", f"raise the limit (ulimit -n), then {_AGAIN}"),
}
"""Expected state and remedy for errors that are caused by the machine and not by the program."""

_CANNOT_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EACCES, errno.EBADF)
"""Error numbers of file systems that cannot sync folders (EACCES: the folder is not readable)."""


@contextlib.contextmanager
def replacing(path: str | os.PathLike) -> Iterator[Path]:
    """Yield a temporary path in the same folder to write to; rename it to `path` after the block.

    The temporary file is synced before it is renamed, so that after a crash there is either the old
    file or the new one. It is removed if the block raises an error. Temporary files of killed
    processes are removed first, and a missing folder is created. Raises `StorageError` if the file
    system fails.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.tmp")
    with storage_errors(path, "cannot be written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path)
        try:
            yield temporary
            _sync(temporary)
            os.replace(temporary, path)
            _sync_folder(path.parent)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise


def write_atomically(path: str | os.PathLike, content: bytes) -> None:
    """Write a whole file; see `replacing`."""
    with replacing(path) as temporary:
        # O_EXCL, because otherwise a link of this name would redirect the write
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(handle, rest) :]
        finally:
            os.close(handle)


def link_or_copy(source: Path, target: Path) -> None:
    """Create a second path for a file: a hard link, or a copy if links are not possible."""
    with storage_errors(target, "cannot be written"):
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        try:
            if target.exists() and target.samefile(source):
                return
            temporary.unlink(missing_ok=True)  # from a killed process with the same number
            os.link(source, temporary)
            temporary.replace(target)  # not synced; a link lost in a power cut is created again
            return
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()
    copy_file(source, target)


def copy_file(source: Path, target: Path) -> None:
    """Copy a file; see `replacing`."""
    with replacing(target) as temporary:
        shutil.copyfile(source, temporary)


def write_json(path: Path, content: Any, *, indent: int = 2, allow_nan: bool = True) -> None:
    """Write an indented JSON file."""
    text = json.dumps(content, indent=indent, allow_nan=allow_nan)
    write_atomically(path, f"{text}\n".encode())


def write_csv(path: Path, names: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """Write a table with the names of its columns in the first line."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([names, *rows])
    write_atomically(path, text.getvalue().encode())


def read_whole(path: str | os.PathLike, most_bytes: int) -> bytes:
    """Read a file into memory, because a memory map would crash the process if the file shrinks.

    Raises ValueError if it is not a regular file (reading a device or pipe may never end) or is
    larger than `most_bytes`, and OSError if it cannot be read.
    """
    # O_NONBLOCK, because opening a pipe without a writer would wait
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as file:  # noqa: PTH123
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is not a regular file")
        if status.st_size > most_bytes:
            raise ValueError(
                f"it has {status.st_size >> 20} MiB, more than the limit of {most_bytes >> 20} MiB"
            )
        return file.read(status.st_size)


def try_lock(file: IO[Any]) -> bool:
    """Try to lock a file; return False if another process has locked it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def visible_files(folder: Path) -> list[Path]:
    """Return all files below a folder, sorted, except hidden ones and those in hidden folders."""
    found = []
    for where, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(where, name) for name in names if not name.startswith(".")]
    return sorted(found)


@contextlib.contextmanager
def storage_errors(path: str | os.PathLike | None = None, what: str = "failed") -> Iterator[None]:
    """Convert failures of disks and file systems to `StorageError`, with a remedy.

    The error names `path`, or by default the file of the original error; `what` describes the
    failure.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _REMEDIES:
            raise
        where = path or error.filename or "a file"
        expected, remedy = _REMEDIES[error.errno]
        found = f"{what} ({os.strerror(error.errno)})"
        raise StorageError(os.fspath(where), found, expected, remedy) from error


def _remove_leftovers(path: Path) -> None:
    """Remove temporary files of `path` whose process, on this machine, has ended."""
    host = re.escape(socket.gethostname())
    pattern = re.compile(rf"\.{re.escape(path.name)}\.{host}\.(\d+)\.tmp")
    with contextlib.suppress(OSError):  # a leftover does no harm
        for other in path.parent.iterdir():
            match = pattern.fullmatch(other.name)
            if match and not _is_running(int(match[1])):
                other.unlink()


def _is_running(process: int) -> bool:
    if process == os.getpid():
        return False  # of an earlier process with the same number: this one has not written yet
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    try:
        _sync(folder)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise


def append_json_line(path: Path, line: Mapping[str, Any]) -> None:
    """Append a line of JSON, unless the file has the line; replace an incomplete last line."""
    text = f"{json.dumps(line)}\n".encode()
    with storage_errors(path, "cannot be written"), path.open("a+b") as file:
        with contextlib.suppress(OSError):  # without file locks, whole lines are still appended
            fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        content = file.read()
        if text not in content.splitlines(keepends=True):
            file.truncate(content.rfind(b"\n") + 1)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
