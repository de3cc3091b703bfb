"""The objective of fitting a network to a table: rows, targets, loss and error."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from neuralfield.nn.network import Sequential
from neuralfield.nn.tensor import Tensor
from neuralfield.system.device import Array
from neuralfield.tasks.task import Objective

BLOCK_ROWS = {"cpu": 1024, "gpu": 1 << 18}
"""Number of rows in a block, by the kind of device."""


@dataclass(frozen=True, kw_only=True)
class TableObjective(Objective):
    """The objective of fitting a network to the rows of a table."""

    network: Sequential
    inputs: np.ndarray  # float64, shape (n, inputs); in the network's units
    targets: np.ndarray  # float64, shape (n, targets); in the network's units
    target_spread: np.ndarray
    """Factors from the network's units to the table's units, in which squared errors are measured;
    float64, shape (targets,)."""
    counts_wrong: bool
    """Whether targets are classes, so that the error is the share of wrong values. A value is wrong
    if it is on the other side of 1/2 than the target."""

    @cached_property
    def data(self) -> tuple[Array, Array, Array]:
        """The inputs and targets of all rows, and the squared spread of the targets."""
        inputs, targets = (
            self.device.asarray(array, dtype=self.dtype) for array in (self.inputs, self.targets)
        )
        return inputs, targets, self.device.asarray(self.target_spread**2, dtype="float64")

    def evaluate(self, samples: Array, step: int, batch_size: int) -> tuple[Tensor, Array]:
        inputs, targets, squared_spread = self.data
        target = targets[samples]
        values = self.network(inputs[samples])
        count = batch_size * target.shape[1]
        if self.counts_wrong:
            error = ((values.data >= 0.5) != (target >= 0.5)).sum() / count
        else:
            squared = ((values.data - target) ** 2).sum(axis=0)
            error = (squared * squared_spread).sum() / count
        return self.loss_of(values, target, count), error

    @property
    def block_samples(self) -> int:
        return BLOCK_ROWS[self.device.kind]

    @property
    def sample_bytes(self) -> int:
        """The bytes kept for each row: as it was read, in the network's precision, and its number
        in the orders of two epochs."""
        return (self.inputs.shape[1] + self.targets.shape[1]) * (8 + self.itemsize) + 16

    @property
    def working_values(self) -> int:
        shapes = [layer.weight.shape for layer in self.network.layers]
        return shapes[0][0] + sum(into_out[1] for into_out in shapes)
