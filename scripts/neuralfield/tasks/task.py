"""The interfaces of tasks (an image, a table or labelled images to fit) and of their objectives."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np

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
    """A column of histories beside the loss: a measure of quality, in users' terms."""

    name: str  # its column
    of_mean_error: Callable[[float], float]  # from the mean of what an engine adds up as errors
    format: str  # how a number of it is printed, with its unit: as for `str.format`


def _decibels(squared_error: float) -> float:
    if squared_error == 0:
        return IDENTICAL_DB
    # an estimate without bias may fall below zero where there is almost nothing to estimate
    return -10 * math.log10(squared_error) if squared_error > 0 else math.nan


PSNR_DB = Measure("psnr_db", _decibels, "{:.2f} dB")
"""The measure of squared errors of values in [0, 1]."""


ACCURACY = Measure("accuracy", lambda share_wrong: 1 - share_wrong, "{:.2%} right")
"""The measure of the share of answers that are wrong."""


class Shared(TypedDict):
    """The parts of an objective that are made alike for all tasks; see `Objective`."""

    optimizer: Optimizer
    schedule: Schedule
    loss: str
    huber_delta: float
    device: Device
    dtype: str


@dataclass(frozen=True, kw_only=True)
class Objective(ABC):
    """A network, what it is fitted to, and how."""

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
        """Bytes of a number."""
        return 8 if self.dtype == "float64" else 4

    @property
    def loss_of(self) -> Loss:
        """The loss of values."""
        return make_loss(self.loss, self.huber_delta)

    @cached_property
    def data(self) -> Any:
        """All that `evaluate` reads of samples, brought to the device when first asked for."""
        raise NotImplementedError

    @abstractmethod
    def evaluate(self, samples: Array, step: int, batch_size: int) -> tuple[Tensor, Array]:
        """Compute the part of a batch's mean loss, and of its error, that some samples have.

        `samples` are indices, a block of the batch, and `batch_size` counts the whole batch. The
        error (see `Measure`) is an estimate of its mean over all samples.
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


def some_of(count: int, most: int = 4096) -> np.ndarray:
    """Choose some of so many samples, evenly, to judge a network by."""
    return np.linspace(0, count - 1, min(count, most)).astype(np.int64)


class Task(ABC):
    """An image, a table or images with labels that a network is fitted to, and how."""

    training: Any

    @property
    @abstractmethod
    def measure(self) -> Measure:
        """The measure that the history has beside the loss."""

    @cached_property
    def model(self) -> StoredModel[Any]:
        """The model of this task, without weights."""
        raise NotImplementedError

    @abstractmethod
    def fresh_network(self) -> Network[Any]:
        """Build a network with fresh weights, in float64 on the CPU: the settings decide it."""

    @abstractmethod
    def objective(self, network: Any, **shared: Unpack[Shared]) -> Objective:
        """Make what engines compute steps of."""

    @abstractmethod
    def identity(self) -> list[Any]:
        """Return all that the result depends on but training settings, engine and device, as
        plain values."""

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """Return what a network's file says of its training data."""

    @abstractmethod
    def squared_error(self, network: Any, device: Device, dtype: str) -> float:
        """Measure how far a network is off on a part of the data; may be infinite or NaN."""

    @property
    def is_corrected(self) -> bool:
        """Whether the finished network has a residual; see `Model`."""
        return False

    @property
    def provenance(self) -> dict[str, Any]:
        """The provenance of every network of this task; see `StoredModel.provenance`."""
        metadata = self.record() | {"training": self.training.described()}
        return self.model.with_metadata(metadata).provenance

    def load_snapshot(self, path: Path, step: int, record: dict[str, Any]) -> dict[str, np.ndarray]:
        """Read the arrays that were saved in this training after some step."""
        return self.model.with_metadata(record).load_snapshot(path, step).arrays
