"""A table as a problem: rows, what should be answered, and how far the answers are off."""

from dataclasses import dataclass

import numpy as np

from neuralfield.nn.losses import make_loss
from neuralfield.nn.network import Sequential
from neuralfield.nn.tensor import Tensor
from neuralfield.system.device import Array, Device
from neuralfield.tasks.objective import Problem

BLOCK_ROWS = {"cpu": 1024, "gpu": 1 << 18}
"""Rows that pass through the network together, by the kind of device."""


@dataclass(frozen=True, kw_only=True)
class TableProblem(Problem):
    """A network, the rows that it is taught, and how.

    Attributes
    ----------
    network : Sequential
    inputs : ndarray of float64, shape (n, inputs)
        In the network's units.
    targets : ndarray of float64, shape (n, targets)
        In the network's units.
    target_spread : ndarray of float64, shape (targets,)
        From the network's units to the table's, in which squared errors are counted.
    counts_wrong : bool
        Whether targets are classes, and errors are counted: a value is wrong where it is on the
        other side of 1/2.
    loss : str
        See `neuralfield.nn.losses.make_loss`.
    huber_delta : float
        In the network's units.
    """

    network: Sequential
    inputs: np.ndarray
    targets: np.ndarray
    target_spread: np.ndarray
    counts_wrong: bool
    loss: str
    huber_delta: float

    def supervision(self, device: Device) -> "TableSupervision":
        """The rows, on a device."""
        return TableSupervision(self, device)

    def block_samples(self, device: Device) -> int:
        """Rows that pass through the network together, on the tape."""
        return BLOCK_ROWS[device.kind]

    @property
    def sample_bytes(self) -> int:
        """What is kept of each row: as it was read, and in the network's precision."""
        itemsize = 8 if self.dtype == "float64" else 4
        return (self.inputs.shape[1] + self.targets.shape[1]) * (8 + itemsize)

    @property
    def working_values(self) -> int:
        """Numbers that are alive for each row while it is worked on, about."""
        shapes = [layer.weight.shape for layer in self.network.layers]
        return shapes[0][0] + sum(into_out[1] for into_out in shapes)


class TableSupervision:
    """Rows, and the loss of a network's answers.

    Parameters
    ----------
    problem : TableProblem
    device : Device
    """

    def __init__(self, problem: TableProblem, device: Device) -> None:
        self._loss = make_loss(problem.loss, problem.huber_delta)
        self._counts_wrong = problem.counts_wrong
        self._inputs = device.asarray(problem.inputs, dtype=problem.dtype)
        self._targets = device.asarray(problem.targets, dtype=problem.dtype)
        self._squared_spread = device.asarray(problem.target_spread**2, dtype="float64")

    def loss(
        self, network: Sequential, samples: Array, step: int, batch_size: int
    ) -> tuple[Tensor, Array]:
        """The part of a batch's mean loss, and of its error, that some rows have."""
        target = self._targets[samples]
        values = network(self._inputs[samples])
        count = batch_size * target.shape[1]
        if self._counts_wrong:
            error = ((values.data >= 0.5) != (target >= 0.5)).sum() / count
        else:
            squared = ((values.data - target) ** 2).sum(axis=0)
            error = (squared * self._squared_spread).sum() / count
        return self._loss(values, target, count), error
