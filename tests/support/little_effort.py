"""A limit of the memory and the processor time of readers of small files that claim to be large."""

import contextlib
import resource
import time
from collections.abc import Iterator
from pathlib import Path

MEMORY_BYTES = 768 << 20
"""Memory for a reader of files of a few KB, in addition to what the process has already."""

PROCESSOR_S = 60
"""A slow machine needs a tenth of this; damaged files have taken minutes."""


@contextlib.contextmanager
def little_effort() -> Iterator[None]:
    """Limit the address space to `MEMORY_BYTES` more than at the start, and check the time."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(
        resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY_BYTES, before[1])
    )
    began_s = time.process_time()
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert time.process_time() - began_s < PROCESSOR_S
