"""The update stage of the cpu engine, which adds up gradients and updates the parameters."""

import math
from typing import TYPE_CHECKING

import numpy as np

from neuralfield.engines.cpu.cut import Cut
from neuralfield.engines.flat_arrays import flatten_moments
from neuralfield.engines.thread_pool import ThreadPool
from neuralfield.nn.optimizers import Adam, ClippedGradients, Muon, Sgd, unclipped
from neuralfield.system.device import Device
from neuralfield.tasks.image.image_objective import ImageObjective

if TYPE_CHECKING:
    from neuralfield.engines.cpu.kernels.layout import Layout

COVERED = (Adam, Muon, Sgd)
"""The optimizers that there is code for, with gradients clipped or not."""


class Update:
    """Updates the parameters with the sums of the shards' gradients; a piece of work is one part.

    All arrays are float32. `parameters` has the shape (n,) and begins with those of the encoding,
    whose gradient is complete when `run` is called. `gradients` has the shape (shards, numbers),
    and its first row is also work memory. `factors` are the copies of the parameters that layers
    multiply by. The optimizer's state becomes views of flat arrays.
    """

    def __init__(
        self,
        objective: ImageObjective,
        device: Device,
        layout: "Layout",
        cut: Cut,
        parameters: np.ndarray,
        encoding_gradient: np.ndarray,
        gradients: np.ndarray,
        factors: np.ndarray,
    ) -> None:
        # imported here, because Numba takes a moment to start
        from neuralfield.engines.cpu.kernels import muon, update

        self._kernels, self._move_matrix = update, muon.move_matrix
        optimizer = objective.optimizer
        self._optimizer, self._schedule = unclipped(optimizer), objective.schedule
        self._limit = optimizer.limit if isinstance(optimizer, ClippedGradients) else math.inf
        self._layout, self._cut = layout, cut
        self._gradients, self._encoding_gradient = gradients, encoding_gradient
        self._factors = factors
        moments, split = _flat_moments(objective, device), cut.encoding_numbers
        self._of_encoding = (*(array[:split] for array in moments), parameters[:split])
        self._of_layers = (*(array[split:] for array in moments), parameters[split:])
        linears = objective.network.layers
        self._directions = [muon.work_arrays(*_sides(layout, matrix)) for matrix in cut.matrices]
        """Work memory for each of Muon's matrices."""
        self._rows = [
            (layer, first, end, _matrix_numbers(cut, layout, layer))
            for layer, first, end in cut.layer_parts
            if first >= linears[layer].fan_in or all(layer != other for other, *_ in cut.matrices)
        ]
        """Layer, first and end of rows that Muon does not update, and the number of parameters in
        Muon's matrices before these rows, which have no second moment."""

    def run(self, pool: ThreadPool, step: int) -> None:
        """Update all parameters; `step` steps have been taken before."""
        cut, gradients, factor = self._cut, self._gradients, np.float32(1)
        if cut.matrices or self._limit < math.inf:
            norm = self._add_up(pool)
            gradients = gradients[:1]
            if self._limit < math.inf:
                factor = np.float32(self._limit / np.maximum(norm, self._limit))
        rate = self._schedule(step)
        numbers = optimizer_numbers(self._optimizer, rate, step)
        matrices, parts = len(cut.matrices), len(self._rows)

        def move(piece: int, _: int) -> None:
            if piece < matrices:
                self._orthogonalise(piece, factor, rate)
            elif piece < matrices + parts:
                self._move_rows(self._rows[piece - matrices], factor, gradients, numbers)
            else:
                place = slice(*cut.encoding_parts[piece - matrices - parts])
                arrays = (self._encoding_gradient, *self._of_encoding)
                self._kernels.update_numbers(factor, *(array[place] for array in arrays), numbers)

        pool.run(move, matrices + parts + len(cut.encoding_parts))

    def _add_up(self, pool: ThreadPool) -> float:
        """Add the layers' gradients of all shards to the first shard's; return the norm of the
        whole gradient, including the encoding's."""
        parts, others = self._cut.layer_parts, self._cut.encoding_parts
        squares = np.zeros(len(parts) + len(others))

        def add(piece: int, _: int) -> None:
            if piece < len(parts):
                table, layer = self._layout.table, parts[piece][0]
                squares[piece] = self._kernels.add_rows(table, *parts[piece], self._gradients)
                squares[piece] *= float(self._layout.frequencies[layer]) ** 2
            else:
                place = slice(*others[piece - len(parts)])
                squares[piece] = self._kernels.sum_of_squares(self._encoding_gradient[place])

        pool.run(add, len(squares))
        return math.sqrt(squares.sum())

    def _move_rows(
        self,
        part: tuple[int, int, int, int],
        factor: np.float32,
        gradients: np.ndarray,
        numbers: np.ndarray,
    ) -> None:
        """Update the parameters of an element of `_rows`."""
        layer, first, end, skipped = part
        frequency = self._layout.frequencies[layer]
        moment1, moment2, parameters = self._of_layers
        self._kernels.update_rows(
            *(self._layout.table, layer, frequency, first, end, frequency * factor, gradients),
            *(moment1, moment2, skipped, parameters, self._factors, numbers),
        )

    def _orthogonalise(self, matrix: int, factor: np.float32, rate: float) -> None:
        layer, first, end = self._cut.matrices[matrix]
        frequency, work = self._layout.frequencies[layer], self._directions[matrix]
        momentum, _, parameters = self._of_layers
        self._move_matrix(
            *(self._layout.table, layer, first, end, frequency, frequency * factor),
            *(self._gradients[0], momentum, parameters, self._factors),
            np.float32(rate * 0.2 * math.sqrt(len(work[0]))),
            work,
        )


def working_bytes(cut: Cut, layout: "Layout") -> int:
    """Count the bytes of the update stage, without the optimizer's state."""
    from neuralfield.engines.cpu.kernels.layout import row_length

    shapes = [sorted(_sides(layout, matrix)) for matrix in cut.matrices]
    return sum(8 * (shorter + longer) * row_length(shorter) for shorter, longer in shapes)


def _sides(layout: "Layout", matrix: tuple[int, int, int]) -> tuple[int, int]:
    """Return the number of rows and of columns of one of Muon's matrices."""
    from neuralfield.engines.cpu.kernels.layout import COLUMNS

    layer, first, end = matrix
    return end - first, int(layout.table[layer, COLUMNS])


def _matrix_numbers(cut: Cut, layout: "Layout", last: int) -> int:
    """Count the parameters in Muon's matrices up to and including those of a layer."""
    return sum(math.prod(_sides(layout, matrix)) for matrix in cut.matrices if matrix[0] <= last)


def optimizer_numbers(optimizer: object, rate: float, step: int) -> np.ndarray:
    """Return the coefficients of the optimizer, or of Muon's Adam, for the update of a step."""
    if isinstance(optimizer, Sgd):
        return np.array([rate, optimizer.momentum], np.float32)
    adam = optimizer.adam if isinstance(optimizer, Muon) else optimizer
    assert isinstance(adam, Adam)
    beta1, beta2 = adam.beta1, adam.beta2
    correction1, correction2 = 1 - beta1 ** (step + 1), math.sqrt(1 - beta2 ** (step + 1))
    numbers = [beta1, 1 - beta1, beta2, 1 - beta2, 1 / correction2, adam.epsilon]
    return np.array([rate / correction1, *numbers], np.float32)


def _flat_moments(objective: ImageObjective, device: Device) -> tuple[np.ndarray, np.ndarray]:
    """Move the optimizer's state into at most two flat arrays, and make it views of them."""
    moments = flatten_moments(device, objective.optimizer, objective.network)
    nothing = np.empty(0, np.float32)
    first, second = (*moments, nothing, nothing)[:2]
    return first, second
