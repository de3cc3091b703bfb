"""What a training needs to know of what is taught: a picture, a table, pictures with labels."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from neuralfield.images.metrics import IDENTICAL_DB
from neuralfield.nn.network import Network
from neuralfield.nn.optimizers import Optimizer
from neuralfield.nn.schedules import Schedule
from neuralfield.system.device import Device
from neuralfield.tasks.objective import Problem
from neuralfield.tasks.training_settings import TrainingSettings


@dataclass(frozen=True)
class Measure:
    """What a history says beside the loss: how good a network is, in its users' terms.

    Attributes
    ----------
    name : str
        Its column.
    of_mean_error : callable
        From the mean of what an engine adds up as errors.
    format : str
        How a number of it is told, with its unit: as for `str.format`.
    """

    name: str
    of_mean_error: Callable[[float], float]
    format: str


def _decibels(squared_error: float) -> float:
    if squared_error == 0:
        return IDENTICAL_DB
    # an estimate without bias may fall below zero where there is almost nothing to estimate
    return -10 * math.log10(squared_error) if squared_error > 0 else math.nan


PSNR_DB = Measure("psnr_db", _decibels, "{:.2f} dB")
"""Of squared errors of values in [0, 1]."""


def _share_right(share_wrong: float) -> float:
    return 1 - share_wrong


ACCURACY = Measure("accuracy", _share_right, "{:.2%} right")
"""Of the share of answers that are wrong."""


class Task(Protocol):
    """What is to be learned, and how."""

    @property
    def training(self) -> TrainingSettings:
        """How."""
        ...

    @property
    def measure(self) -> Measure:
        """What the history says of it."""
        ...

    def fresh_network(self) -> Network[Any]:
        """A network with fresh weights, in float64 on the CPU: a function of the settings alone."""
        ...

    def problem(
        self,
        network: Any,
        optimizer: Optimizer,
        schedule: Schedule,
        device: Device,
        dtype: str,
    ) -> Problem:
        """What an engine is given."""
        ...

    def identity(self) -> list[Any]:
        """All that the result depends on but training settings, engine and device; JSON can hold
        it."""
        ...

    def record(self) -> dict[str, Any]:
        """What a network's file says of what it was taught."""
        ...

    def save_network(self, path: Path, network: Any, record: dict[str, Any]) -> None:
        """Write a network with all that is needed to use it."""
        ...

    def load_snapshot(self, path: Path, step: int, record: dict[str, Any]) -> dict[str, np.ndarray]:
        """Arrays of a network that `save_network` wrote in this training after some step.

        Raises
        ------
        CheckpointError
            The file is missing, damaged, or of another training or step.
        """
        ...

    def squared_error(self, network: Any, device: Device, dtype: str) -> float:
        """How far a network is off on a part of what is taught; may be infinite or NaN."""
        ...
