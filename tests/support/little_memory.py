"""A memory limit for readers of files that claim to be large."""

import contextlib
import resource
from collections.abc import Iterator
from pathlib import Path

MEMORY_BYTES = 768 << 20
"""Memory for a reader of files of a few KB, in addition to what the process has already."""


@contextlib.contextmanager
def little_memory() -> Iterator[None]:
    """Limit the process's address space to `MEMORY_BYTES` more than it has at the start."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(
        resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY_BYTES, before[1])
    )
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
