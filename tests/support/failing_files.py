"""A layer under the file functions that fails, or ends the process, at any one of their calls."""

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

CALLS = ("mkdir", "open", "write", "fsync", "close", "link", "replace", "unlink", "rmdir")
"""Everything in `os` that changes a file or folder; `pathlib` and `shutil` go through it too."""

ERRORS = (errno.ENOSPC, errno.EACCES, errno.EIO, errno.EROFS)
KILLED = 137

Happening = Callable[[str, Callable, tuple, dict], object]
"""This replaces a call, and is given its name, the real one and its arguments."""


class FailingFiles:
    """Counts the calls that change something, and lets one of them go wrong.

    Parameters
    ----------
    at : int, optional
        Number of the call, from 0; None lets all go well.
    happening : callable, optional
        What it does instead.

    Attributes
    ----------
    calls : list of str
        Names of those that were made.
    """

    def __init__(self, at: int | None = None, happening: Happening | None = None) -> None:
        self.at, self.happening = at, happening
        self.calls: list[str] = []

    @contextlib.contextmanager
    def __call__(self) -> Iterator["FailingFiles"]:
        with contextlib.ExitStack() as stack:
            for name in CALLS:
                stack.enter_context(mock.patch.object(os, name, self._watched(name)))
            yield self

    def _watched(self, name: str) -> Callable:
        real = getattr(os, name)

        def call(*arguments, **options):
            if name == "open" and arguments[1] & os.O_NONBLOCK:  # as files are that are only read
                return real(*arguments, **options)
            number = len(self.calls)
            self.calls.append(name)
            if number == self.at and self.happening:
                return self.happening(name, real, arguments, options)
            return real(*arguments, **options)

        return call


def failing_with(number: int) -> Happening:
    """The call fails, with an error's number, and does nothing."""

    def happening(name, real, arguments, options):
        if name == "close":
            real(*arguments, **options)  # as Linux does: the descriptor is gone all the same
        raise OSError(number, os.strerror(number))

    return happening


def killed_before(name: str, real: Callable, arguments: tuple, options: dict) -> object:
    """The process ends before the call; of a write, half has been done."""
    if name == "write":
        handle, content = arguments
        real(handle, bytes(content)[: len(content) // 2])
    os._exit(KILLED)


def killed_after(name: str, real: Callable, arguments: tuple, options: dict) -> object:
    """The process ends as soon as the call is done."""
    with contextlib.suppress(OSError):
        real(*arguments, **options)
    os._exit(KILLED)


def writing_little(name: str, real: Callable, arguments: tuple, options: dict) -> object:
    """A write takes less than it is given; other calls are made as they are."""
    if name == "write":
        handle, content = arguments
        return real(handle, bytes(content)[: max(1, len(content) // 3)])
    return real(*arguments, **options)


def let_others_enter(folder: Path) -> None:
    """Let another user go into a temporary folder, and into those that it lies in."""
    for path in (folder, *folder.parents):
        if not path.stat().st_mode & stat.S_IXOTH:
            path.chmod(path.stat().st_mode | stat.S_IXGRP | stat.S_IXOTH)


def in_a_child(work: Callable[[], object]) -> int:
    """Do something in a process of its own; returns its exit status."""
    child = os.fork()
    if not child:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def files_in(folder: Path) -> dict[str, bytes]:
    """Name and content of every file below a folder, without temporary ones."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(".tmp")
    }
