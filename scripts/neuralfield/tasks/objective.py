"""The interface of objectives: what engines compute steps of."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypedDict

from neuralfield.nn.network import Network
from neuralfield.nn.optimizers import Optimizer
from neuralfield.nn.sampling import Batches
from neuralfield.nn.schedules import Schedule
from neuralfield.nn.tensor import Tensor
from neuralfield.system.device import Array, Device


class Shared(TypedDict):
    """The parts of an objective that are made alike for all tasks; see `Objective`."""

    optimizer: Optimizer
    schedule: Schedule
    device: Device
    dtype: str


@dataclass(frozen=True, kw_only=True)
class Objective(ABC):
    """A network, what it is fitted to, and how."""

    network: Network[Any]  # on `device`, in `dtype`; trained in place
    optimizer: Optimizer  # over the network's parameters
    schedule: Schedule  # the learning rate at every step
    batches: Batches
    device: Device
    dtype: str  # "float32" or "float64"

    @cached_property
    def data(self) -> Any:
        """All that `evaluate` reads of samples, brought to the device when first asked for."""
        raise NotImplementedError

    @abstractmethod
    def evaluate(self, samples: Array, step: int, batch_size: int) -> tuple[Tensor, Array]:
        """Compute the part of a batch's mean loss, and of its error, that some samples have.

        `samples` are indices, a block of the batch, and `batch_size` counts the whole batch. The
        error (see `neuralfield.tasks.task.Measure`) is an estimate of its mean over all samples.
        """

    @property
    @abstractmethod
    def block_samples(self) -> int:
        """Samples that pass through the network together, on the tape.

        Few enough for a core's cache, or to keep a GPU's memory free. Part of the result, because
        sums are taken block by block.
        """

    @property
    @abstractmethod
    def sample_bytes(self) -> int:
        """An estimate of the bytes kept of each sample."""

    @property
    @abstractmethod
    def working_values(self) -> int:
        """An estimate of the numbers that are alive for each sample while it is worked on."""
