"""What an engine is given: everything that says what one training step computes."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

from neuralfield.nn.network import Network
from neuralfield.nn.optimizers import Optimizer
from neuralfield.nn.sampling import Batches
from neuralfield.nn.schedules import Schedule
from neuralfield.nn.tensor import Tensor
from neuralfield.system.device import Array, Device


class Supervision(Protocol):
    """What a batch asks of a network, on a device, and how far its answers are off."""

    def loss(
        self, network: Any, samples: Array, step: int, batch_size: int
    ) -> tuple[Tensor, Array]:
        """The part of a batch's mean loss, and of its error, that some samples have.

        Parameters
        ----------
        network : Network
        samples : array of int64, shape (n,)
            A block of the batch.
        step : int
        batch_size : int
            Samples of the whole batch.

        Returns
        -------
        loss : Tensor of one number
        error : array of one number
            See `neuralfield.tasks.task.Measure`; an estimate of its mean over all samples.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Problem(ABC):
    """A network, what it is taught, and how.

    Attributes
    ----------
    network : Network
        On the engine's device, in `dtype`; trained in place.
    optimizer : Optimizer
        Over the network's parameters.
    schedule : Schedule
        The learning rate at every step.
    batches : Batches
    dtype : {"float32", "float64"}
    """

    network: Network[Any]
    optimizer: Optimizer
    schedule: Schedule
    batches: Batches
    dtype: str

    @abstractmethod
    def supervision(self, device: Device) -> Supervision:
        """What is taught, on a device."""

    @abstractmethod
    def block_samples(self, device: Device) -> int:
        """Samples that pass through the network together, on the tape.

        Few enough for a core's cache, or to keep a card's memory free. Part of the result, because
        sums are taken block by block.
        """

    @property
    @abstractmethod
    def sample_bytes(self) -> int:
        """What is kept of each sample, about."""

    @property
    @abstractmethod
    def working_values(self) -> int:
        """Numbers that are alive for each sample while it is worked on, about."""
