"""A kernel with its arguments, and properties of the GPU that it is launched on."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralfield.system.device import Device

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
        arguments = tuple(_NOTHING if value is None else value for value in self.arguments)
        self.kernel(self.grid, (self.threads,), arguments, shared_mem=self.shared_bytes)


def blocks_for(count: int) -> int:
    """Return the number of blocks whose threads treat one element each."""
    return -(-count // THREADS)


def compute_capability(device: Device) -> int:
    """Return the current GPU's compute capability; 90 is 9.0."""
    return int(device.xp.cuda.Device().compute_capability)


def processor_count(device: Device) -> int:
    """Return the current GPU's number of multiprocessors."""
    return int(device.xp.cuda.Device().attributes["MultiProcessorCount"])
