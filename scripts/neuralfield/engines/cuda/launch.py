"""A kernel with all that it is given."""

from dataclasses import dataclass
from typing import Any

import numpy as np

THREADS = 256

_NOTHING = np.uintp(0)


@dataclass(frozen=True)
class Launch:
    """A kernel with its arguments; None is a null pointer."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    threads: int = THREADS
    shared_bytes: int = 0

    def __call__(self) -> None:
        """Put it on the current stream."""
        arguments = tuple(_NOTHING if value is None else value for value in self.arguments)
        self.kernel(self.grid, (self.threads,), arguments, shared_mem=self.shared_bytes)
