"""Checks of files that run first, because Snakemake would show tracebacks or remove results."""

import contextlib
import errno
import logging
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from neuralfield.system.errors import ResourceError
from neuralfield.system.files import storage_errors

FEWEST_OPEN_FILES = 64
"""Minimum limit of open files: Snakemake needs about 20, and some more for each running job."""

ENOUGH_OPEN_FILES = 1024

_PROBE_BYTES = 4096

_CLOCK_SKEW_S = 5
"""Seconds by which the clock of a network file system may be ahead."""


def require_own_folder(folder: Path = Path(".snakemake")) -> None:
    """Check that files can be written to Snakemake's own folder, which is created if missing."""
    logging.raiseExceptions = False  # errors of writing a log to a full disk are ignored
    with storage_errors(folder, "cannot be written to"):
        folder.mkdir(exist_ok=True)
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            file.write(bytes(_PROBE_BYTES))


def require_open_files() -> None:
    """Raise the limit of open files if it is low; raise `ResourceError` if it stays too low."""
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


def correct_future_times(paths: Iterable[Path], log: Callable[[str], None]) -> None:
    """Set modification times in the future to now, in their order; `paths` may be folders.

    Such files were made while the clock was ahead. Snakemake would remove everything that a job
    makes from them, because it is older than they are.
    """
    limit_ns = time.time_ns() + _CLOCK_SKEW_S * 10**9
    future: dict[int, list[Path]] = {}
    for top in paths:
        below = (Path(where, name) for where, _, names in os.walk(top) for name in names)
        for path in (top, *below):
            with contextlib.suppress(OSError):
                modified_ns = path.stat().st_mtime_ns
                if modified_ns > limit_ns:
                    future.setdefault(modified_ns, []).append(path)
    for _, changed in sorted(future.items()):
        now_ns = time.time_ns()  # later than that of the files before
        for path in changed:
            with storage_errors(path, "has a time in the future, which cannot be set to now"):
                os.utime(path, ns=(now_ns, now_ns))
    if future:
        first, *others = sorted(path for changed in future.values() for path in changed)
        named = f"{first} and {len(others):,} other files" if others else str(first)
        log(f"{named}: changed in the future, by a clock that was ahead; the time is set to now.")


def require_writable(paths: Iterable[str | os.PathLike]) -> None:
    """Check that jobs can write or replace these files and folders."""
    for folder in sorted({_existing_folder(Path(path)) for path in paths}):
        reason = _error_of_writing(folder)
        if reason:
            with storage_errors(folder, "cannot be written to"):
                raise OSError(reason, os.strerror(reason))


def _existing_folder(path: Path) -> Path:
    """Return the path itself if it is a folder, or else its nearest existing parent."""
    # in a folder without search permission pathlib raises an error, and these two functions do not
    places = (path, *path.parents) if os.path.isdir(path) else path.parents  # noqa: PTH112
    return next(place for place in places if os.path.lexists(place))


def _error_of_writing(folder: Path) -> int:
    """Return the error number that writing into a folder would fail with, or 0."""
    if not folder.is_dir():
        return errno.ENOTDIR
    if os.access(folder, os.W_OK | os.X_OK):
        return 0
    return errno.EROFS if os.statvfs(folder).f_flag & os.ST_RDONLY else errno.EACCES
