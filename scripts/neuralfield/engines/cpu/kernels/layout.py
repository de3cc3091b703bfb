"""The memory layout of a network's numbers, as a table that kernels read."""

from dataclasses import dataclass

import numpy as np

from neuralfield.engines.cpu.kernels.tiles import VECTOR
from neuralfield.engines.kernel_plan import NetworkPlan
from neuralfield.nn.layers import KERNEL_ACTIVATIONS

FAN_IN, FAN_OUT, ROWS, ACTIVATION, IN_LENGTH, OUT_LENGTH = range(6)
VALUES, GRADIENTS, WEIGHTS, TRANSPOSED, PARAMETERS, GRADIENT = range(6, 12)
COLUMNS, BIASES, PAIRS, FACTORS = range(12, 16)
"""Columns of the table.

FAN_IN, FAN_OUT: of a layer. ROWS: FAN_IN, and one more for biases. ACTIVATION: its number, or -1.
IN_LENGTH, OUT_LENGTH: row strides of arrays with ROWS or FAN_OUT numbers in a row. A layer's
OUT_LENGTH is the next layer's IN_LENGTH, so that an activation is one long loop, except where a
product reduces the number of values.

The next columns are the indices at which arrays begin: in a thread's memory, VALUES (the layer's
inputs, with a column of ones for biases) and GRADIENTS (derivatives of its activation; later
gradients of the loss); in the factors, WEIGHTS (with biases as the last row) and TRANSPOSED
(without biases), both multiplied by the frequency; PARAMETERS in the parameters; GRADIENT in a
shard's gradient.

COLUMNS: count of numbers per row of weights in the parameters. BIASES: count of biases there. Both
are FAN_OUT, unless values are complex. PAIRS: half of FAN_IN, if weights are complex, see
`complex_weights`; 0 otherwise. FACTORS: number of equal parts of the output that an activation
multiplies with each other.
"""

_BLOCK_NUMBERS = 400_000
_LEAST_ROWS, _MOST_ROWS, _ROWS_STEP = 48, 480, 48
"""Size of a block: as many points as fit into 1.6 MB with all their numbers, about a core's cache.
It is the same on all machines, because gradients are summed block by block, so that the result
depends on it."""


def row_length(columns: int) -> int:
    """Return the stride of rows in numbers, which is an odd number of whole vectors.

    It is odd so that rows that are processed together do not compete for the same cache sets.
    """
    return ((columns + VECTOR - 1) // VECTOR | 1) * VECTOR


@dataclass(frozen=True)
class Layout:
    """The table of a network, and the sizes of the memory that it describes."""

    table: np.ndarray  # int64, shape (layers, 16)
    frequencies: np.ndarray  # float32, shape (layers,)
    block_rows: int  # points that pass through the network together
    thread_numbers: int  # length of a thread's memory
    factor_numbers: int
    gradient_numbers: int  # of a shard's gradient
    scratch: int  # index in a thread's memory at which a few rows of gradients are stored


SCRATCH_ROWS = 48
"""Number of rows that a layer processes at a time, so that their values are still in a near cache
for the operation after the product."""


def make_layout(plan: NetworkPlan, *, is_trained: bool = True, points: int = 1) -> Layout:
    """Make the layout of a network; all `points` of a pixel pass through it together.

    Without training, the VALUES of layers use two areas of memory in turn, and the GRADIENTS of all
    layers use a third one.
    """
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
        kind = -1 if layer.activation is None else KERNEL_ACTIVATIONS.index(layer.activation)
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
