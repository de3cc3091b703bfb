"""Checks before anything runs that files can be written: later, Snakemake shows tracebacks."""

import contextlib
import errno
import logging
import os
import resource
import tempfile
from collections.abc import Iterable
from pathlib import Path

from neuralfield.system.errors import ResourceError
from neuralfield.system.files import storage_errors

FEWEST_OPEN_FILES = 64
"""Snakemake and its jobs need about 20, and some more for each job at a time."""

ENOUGH_OPEN_FILES = 1024

_PROBE_BYTES = 4096


def require_own_folder(folder: Path = Path(".snakemake")) -> None:
    """Check that files can be written to Snakemake's own folder, which is made if it is missing."""
    logging.raiseExceptions = False  # a log on a full disk can be left out
    with storage_errors(folder, "cannot be written to"):
        folder.mkdir(exist_ok=True)
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            file.write(bytes(_PROBE_BYTES))


def require_open_files() -> None:
    """Raise the limit of open files where it is low; one that cannot be raised is an error."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= ENOUGH_OPEN_FILES:
        return
    wanted = ENOUGH_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, ENOUGH_OPEN_FILES)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    if soft < FEWEST_OPEN_FILES:
        found = f"at most {soft} open files are allowed"
        remedy = f"raise the limit (ulimit -n {ENOUGH_OPEN_FILES}), then run the same command again"
        raise ResourceError("this process", found, f"{FEWEST_OPEN_FILES} or more", remedy)


def require_writable(paths: Iterable[str | os.PathLike]) -> None:
    """Check that jobs can write or replace these files and folders."""
    for folder in sorted({_existing_folder(Path(path)) for path in paths}):
        reason = _error_of_writing(folder)
        if reason:
            with storage_errors(folder, "cannot be written to"):
                raise OSError(reason, os.strerror(reason))


def _existing_folder(path: Path) -> Path:
    """Return the nearest path above that exists, or the path itself where it is a folder."""
    # these two answer, where pathlib raises an error: in a folder that may not be searched
    places = (path, *path.parents) if os.path.isdir(path) else path.parents  # noqa: PTH112
    return next(place for place in places if os.path.lexists(place))


def _error_of_writing(folder: Path) -> int:
    """Return the number of the error that writing into a folder would end with, or 0."""
    if not folder.is_dir():
        return errno.ENOTDIR
    if os.access(folder, os.W_OK | os.X_OK):
        return 0
    return errno.EROFS if os.statvfs(folder).f_flag & os.ST_RDONLY else errno.EACCES
