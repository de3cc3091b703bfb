"""The memory layout of a network's numbers, as a table that kernels read."""

from dataclasses import dataclass

import numpy as np

from neuralfield.engines.cpu.kernels.functions import ACTIVATIONS, ROW_ACTIVATIONS
from neuralfield.engines.cpu.kernels.tiles import VECTOR
from neuralfield.engines.kernel_plan import NetworkPlan

FAN_IN, FAN_OUT, ROWS, ACTIVATION, IN_LENGTH, OUT_LENGTH = range(6)
VALUES, GRADIENTS, WEIGHTS, TRANSPOSED, PARAMETERS, GRADIENT = range(6, 12)
COLUMNS, BIASES, PAIRS, FACTORS = range(12, 16)
"""Columns of the table.

FAN_IN, FAN_OUT: of a layer. ROWS: FAN_IN, and one more for biases. ACTIVATION: its number, or -1.
IN_LENGTH, OUT_LENGTH: numbers from one row to the next of arrays with ROWS or FAN_OUT numbers in a
row. A layer's OUT_LENGTH is the next one's IN_LENGTH, so that an activation is one long loop; not
where a product leaves fewer values.

Then where arrays begin: VALUES (what goes into the layer, with a column of ones for biases) and
GRADIENTS (derivatives of its activation; later gradients of the loss) in a thread's memory; WEIGHTS
(with biases as a last row) and TRANSPOSED (without), both times the frequency, among the factors;
PARAMETERS in the parameters; GRADIENT in a shard's gradient.

COLUMNS: numbers of a row of weights among the parameters. BIASES: numbers of the biases there. Both
are FAN_OUT, unless values are complex. PAIRS: half of FAN_IN, if weights are complex, see
`complex_weights`; 0 otherwise. FACTORS: equal parts of the output that an activation multiplies.
"""

_BLOCK_NUMBERS = 400_000
_LEAST_ROWS, _MOST_ROWS, _ROWS_STEP = 48, 480, 48
"""A block has as many points as let all its numbers take 1.6 MB, about a core's cache. Part of the
result, as gradients are summed block by block, so it is the same on all machines."""


def row_length(columns: int) -> int:
    """Count the numbers from one row to the next: a whole and odd number of vectors.

    Odd, so that rows that are worked on together do not compete for the same places in a cache.
    """
    return ((columns + VECTOR - 1) // VECTOR | 1) * VECTOR


@dataclass(frozen=True)
class Layout:
    """The table of a network, and how much memory it describes."""

    table: np.ndarray  # int64, shape (layers, 16)
    frequencies: np.ndarray  # float32, shape (layers,)
    block_rows: int  # points that pass through the network together
    thread_numbers: int  # length of a thread's memory
    factor_numbers: int
    gradient_numbers: int  # of a shard's gradient
    scratch: int  # where in a thread's memory a few rows of gradients are put


SCRATCH_ROWS = 48
"""Rows that a layer is done for before the next ones: their values are still near the core."""


def make_layout(plan: NetworkPlan, *, is_trained: bool = True, points: int = 1) -> Layout:
    """Make the layout of a network; all `points` of a pixel pass through it together.

    If it is not trained, every second layer uses the same memory.
    """
    kinds = [*ACTIVATIONS, *ROW_ACTIVATIONS]
    table = np.zeros((len(plan.layers), 16), np.int64)
    parameters = factors = gradient = 0
    in_lengths = [row_length(layer.fan_in + layer.has_bias) for layer in plan.layers]
    out_lengths = [row_length(layer.fan_out) for layer in plan.layers]
    for index, layer in enumerate(plan.layers[:-1]):
        if layer.values_out == layer.fan_out:
            out_lengths[index] = in_lengths[index + 1]
    lengths = zip(in_lengths, out_lengths, strict=True)
    for index, (layer, (in_length, out_length)) in enumerate(
        zip(plan.layers, lengths, strict=True)
    ):
        row = table[index]
        rows = layer.fan_in + layer.has_bias
        kind = -1 if layer.activation is None else kinds.index(layer.activation)
        row[:IN_LENGTH] = layer.fan_in, layer.fan_out, rows, kind
        row[COLUMNS:] = layer.fan_out, layer.fan_out, 0, layer.factors
        row[IN_LENGTH], row[OUT_LENGTH] = in_length, out_length
        row[WEIGHTS], row[TRANSPOSED] = factors, factors + rows * out_length
        factors += rows * out_length + layer.fan_out * in_length
        row[PARAMETERS], row[GRADIENT] = parameters, gradient
        if plan.complex_tensors:
            weight, bias = plan.complex_tensors[2 * index : 2 * index + 2]
            row[COLUMNS], row[BIASES] = weight.columns, sum(bias.parameter_sizes.values())
            row[PAIRS] = 0 if weight.imaginary is None else weight.rows
        parameters += int(layer.fan_in * row[COLUMNS] + layer.has_bias * row[BIASES])
        gradient += rows * out_length
    widest = int(table[:, [IN_LENGTH, OUT_LENGTH]].max())
    kept = int(table[:, IN_LENGTH].sum() + table[:, OUT_LENGTH].sum()) if is_trained else 3 * widest
    block_rows = _BLOCK_NUMBERS // kept // _ROWS_STEP * _ROWS_STEP
    block_rows = max(min(max(block_rows, _LEAST_ROWS), _MOST_ROWS), points)
    place = 0
    for index, row in enumerate(table):
        if is_trained:
            row[VALUES] = place
            row[GRADIENTS] = place + block_rows * row[IN_LENGTH]
            place += block_rows * int(row[IN_LENGTH] + row[OUT_LENGTH])
        else:
            row[VALUES], row[GRADIENTS] = index % 2 * block_rows * widest, 2 * block_rows * widest
            place = 3 * block_rows * widest
    frequencies = np.array([layer.frequency for layer in plan.layers], np.float32)
    return Layout(
        table, frequencies, block_rows, place + SCRATCH_ROWS * widest, factors, gradient, place
    )


def aligned(count: int) -> np.ndarray:
    """Allocate zeros in float32 at an address that is aligned for vectors."""
    memory = np.zeros(count + VECTOR, np.float32)
    start = -(memory.ctypes.data // 4) % VECTOR
    return memory[start : start + count]
