"""How one training step runs. `fit` asks for a step and never knows which engine it got."""

from typing import Protocol

from neuralfield.device import Array, Device, require_memory
from neuralfield.engines.problem import Problem
from neuralfield.engines.tape import TapeEngine, memory_bytes
from neuralfield.errors import ConfigError


class Engine(Protocol):
    """One training step, run in some way."""

    name: str

    def step(self, index: int, learning_rate: float) -> tuple[Array, Array]:
        """Take step `index`; returns loss and squared error, scalars on the device."""
        ...

    def close(self) -> None:
        """Give back threads and memory."""
        ...


def make_engine(request: str, problem: Problem, device: Device, threads: int) -> Engine:
    """An engine for a problem.

    Parameters
    ----------
    request : {"auto", "tape"}
        ``auto`` takes the fastest engine that covers the problem.
    problem : Problem
    device : Device
    threads : int
        Cores to use, on the CPU.

    Raises
    ------
    ConfigError
        Unknown engine.
    ResourceError
        The step would not fit into memory.
    """
    if request not in ("auto", "tape"):
        raise ConfigError("training.engine", repr(request), "auto or tape")
    require_memory(
        memory_bytes(problem, device, threads),
        device,
        "training",
        "use a smaller picture (images: size), a narrower network (fields: width) or fewer threads",
    )
    return TapeEngine(problem, device, threads)
