"""A layer below the file functions that fails, or ends the process, at any one of their calls."""

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

CALLS = ("mkdir", "open", "write", "fsync", "close", "link", "replace", "unlink", "rmdir")
"""All functions in `os` that change a file or folder; `pathlib` and `shutil` call them, too."""

ERRORS = (errno.ENOSPC, errno.EACCES, errno.EIO, errno.EROFS)
KILLED = 137

Happening = Callable[[str, Callable, tuple, dict], object]
"""A replacement for a call; it gets the call's name, the real function and its arguments."""


class FailingFiles:
    """A context that records the calls that change files, and replaces the one with number `at`."""

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
            if name == "open" and arguments[1] & os.O_NONBLOCK:  # files opened only for reading
                return real(*arguments, **options)
            number = len(self.calls)
            self.calls.append(name)
            if number == self.at and self.happening:
                return self.happening(name, real, arguments, options)
            return real(*arguments, **options)

        return call


def failing_with(number: int) -> Happening:
    """Return a replacement that does nothing and raises an error with a given number."""

    def happening(name, real, arguments, options):
        if name == "close":
            real(*arguments, **options)  # Linux closes the descriptor even if close fails
        raise OSError(number, os.strerror(number))

    return happening


def killed_before(name: str, real: Callable, arguments: tuple, options: dict) -> object:
    """End the process before the call; a write is half done."""
    if name == "write":
        handle, content = arguments
        real(handle, bytes(content)[: len(content) // 2])
    os._exit(KILLED)


def killed_after(name: str, real: Callable, arguments: tuple, options: dict) -> object:
    """End the process as soon as the call is done."""
    with contextlib.suppress(OSError):
        real(*arguments, **options)
    os._exit(KILLED)


def writing_little(name: str, real: Callable, arguments: tuple, options: dict) -> object:
    """Write only a third of the given bytes; make other calls unchanged."""
    if name == "write":
        handle, content = arguments
        return real(handle, bytes(content)[: max(1, len(content) // 3)])
    return real(*arguments, **options)


def let_others_enter(folder: Path) -> None:
    """Let another user enter a temporary folder and its parent folders."""
    for path in (folder, *folder.parents):
        if not path.stat().st_mode & stat.S_IXOTH:
            path.chmod(path.stat().st_mode | stat.S_IXGRP | stat.S_IXOTH)


def in_a_child(work: Callable[[], object]) -> int:
    """Run a function in a child process, and return the exit status of the child."""
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
    """Return the name and content of every file below a folder, without temporary files."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(".tmp")
    }
