"""The interfaces of tasks (an image, a table or labelled images to fit) and of their objectives."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypedDict, Unpack

from neuralfield.images.metrics import IDENTICAL_DB
from neuralfield.nn.losses import Loss, make_loss
from neuralfield.nn.network import Network
from neuralfield.nn.optimizers import Optimizer
from neuralfield.nn.sampling import Batches
from neuralfield.nn.schedules import Schedule
from neuralfield.nn.tensor import Tensor
from neuralfield.system.device import Array, Device
from neuralfield.tasks.stored_model import StoredModel


@dataclass(frozen=True)
class Measure:
    """A measure of quality that histories contain in addition to the loss."""

    name: str  # name of its column
    of_mean_error: Callable[[float], float]  # computes it from the mean of the engine's errors
    format: str  # format of a number with its unit, for `str.format`


def _decibels(squared_error: float) -> float:
    if squared_error == 0:
        return IDENTICAL_DB
    # an unbiased estimate may be negative if the error is almost zero
    return -10 * math.log10(squared_error) if squared_error > 0 else math.nan


PSNR_DB = Measure("psnr_db", _decibels, "{:.2f} dB")
"""The measure for squared errors of values in [0, 1]."""


ACCURACY = Measure("accuracy", lambda share_wrong: 1 - share_wrong, "{:.2%} correct")
"""The measure for classifiers, whose error is the share of wrong answers."""


class Shared(TypedDict):
    """The parts of an objective that are created in the same way for all tasks; see `Objective`."""

    optimizer: Optimizer
    schedule: Schedule
    loss: str
    huber_delta: float
    device: Device
    dtype: str


@dataclass(frozen=True, kw_only=True)
class Objective(ABC):
    """A network, the data that it is fitted to, and the method of the fit."""

    network: Network[Any]  # on `device`, in `dtype`; trained in place
    optimizer: Optimizer  # over the network's parameters
    schedule: Schedule  # the learning rate at every step
    loss: str  # see `neuralfield.nn.losses.make_loss`
    huber_delta: float  # in the network's units
    batches: Batches
    device: Device
    dtype: str  # "float32" or "float64"

    @property
    def itemsize(self) -> int:
        """The size of a number in bytes."""
        return 8 if self.dtype == "float64" else 4

    @property
    def loss_of(self) -> Loss:
        """The loss function."""
        return make_loss(self.loss, self.huber_delta)

    @cached_property
    def data(self) -> Any:
        """The samples as `evaluate` reads them, copied to the device on first access."""
        raise NotImplementedError

    @abstractmethod
    def evaluate(self, samples: Array, step: int, batch_size: int) -> tuple[Tensor, Array]:
        """Compute the contribution of some samples to the mean loss and error of a batch.

        `samples` are the indices of a block of the batch, and `batch_size` is the size of the whole
        batch. The error (see `Measure`) is an estimate of the mean over all samples.
        """

    @property
    @abstractmethod
    def block_samples(self) -> int:
        """The number of samples that the autograd tape evaluates together.

        It is small enough for the cache of a CPU core, or to limit the memory use on a GPU. The
        result depends on it, because sums are computed block by block.
        """

    @property
    @abstractmethod
    def sample_bytes(self) -> int:
        """The estimated memory of the data of a sample, in bytes."""

    @property
    @abstractmethod
    def working_values(self) -> int:
        """The estimated number of intermediate values of a sample that are in memory."""


class Task(ABC):
    """Base class of tasks: the data that a network is fitted to, and the settings of the fit."""

    training: Any

    @property
    @abstractmethod
    def measure(self) -> Measure:
        """The measure of quality in the history."""

    @cached_property
    def model(self) -> StoredModel[Any]:
        """The model of this task, without weights."""
        raise NotImplementedError

    @abstractmethod
    def fresh_network(self) -> Network[Any]:
        """Create a network, in float64 on the CPU; the settings determine its initial weights."""

    @abstractmethod
    def objective(self, network: Any, **shared: Unpack[Shared]) -> Objective:
        """Create the objective that engines minimize."""

    @abstractmethod
    def identity(self) -> list[Any]:
        """Return everything that determines the result, as plain values, except for the training
        settings, the engine and the device."""

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """Return the description of the training data for the file of a network."""

    @property
    def is_corrected(self) -> bool:
        """Whether the finished network has a residual; see `Model`."""
        return False

    @property
    def provenance(self) -> dict[str, Any]:
        """The provenance of every network of this task; see `StoredModel.provenance`."""
        model: Any = self.model
        metadata = self.record() | {"training": self.training.described()}
        return replace(model, metadata=metadata).provenance
