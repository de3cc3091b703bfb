"""A limit of memory, for readers of files that claim to be large."""

import contextlib
import resource
from collections.abc import Iterator
from pathlib import Path

MEMORY_BYTES = 768 << 20
"""The memory of a reader for these files of a few KB, beyond what the process has already."""


@contextlib.contextmanager
def little_memory() -> Iterator[None]:
    """Within this context the process can have no more than some memory on top of what it has."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(
        resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY_BYTES, before[1])
    )
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
