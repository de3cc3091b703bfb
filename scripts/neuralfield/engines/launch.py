"""A kernel with all that it is given."""

from dataclasses import dataclass
from typing import Any

import numpy as np

THREADS = 256

_NOTHING = np.uintp(0)


@dataclass(frozen=True)
class Launch:
    """A kernel in blocks of 256 threads, with its arguments; None is a null pointer."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]

    def __call__(self) -> None:
        """Put it on the current stream."""
        arguments = (_NOTHING if value is None else value for value in self.arguments)
        self.kernel(self.grid, (THREADS,), tuple(arguments))
