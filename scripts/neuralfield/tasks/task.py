"""The interface of tasks: an image, a table or images with labels to fit."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from neuralfield.images.metrics import IDENTICAL_DB
from neuralfield.nn.network import Network
from neuralfield.system.checkpoint import load_snapshot
from neuralfield.system.device import Device
from neuralfield.tasks.objective import Objective, Shared
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
        of = self.model.with_metadata(record)
        return load_snapshot(path, step, of, type(of).load).arrays
