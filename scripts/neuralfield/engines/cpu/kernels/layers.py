"""Layers of a network, forward and backward, for a block of points.

Biases are the last row of the weights, and the last column of the values is ones. The matrix
products of weights and values thereby add the biases and sum their gradients.
"""

import numpy as np
from numba.extending import register_jitable

from neuralfield.engines.cpu.kernels.complex_weights import put_complex_row, put_row
from neuralfield.engines.cpu.kernels.functions import activate
from neuralfield.engines.cpu.kernels.last_layer import backward_last, forward_last
from neuralfield.engines.cpu.kernels.layout import (
    ACTIVATION,
    BIASES,
    COLUMNS,
    FAN_IN,
    FAN_OUT,
    GRADIENT,
    GRADIENTS,
    IN_LENGTH,
    OUT_LENGTH,
    PAIRS,
    PARAMETERS,
    ROWS,
    SCRATCH_ROWS,
    TRANSPOSED,
    VALUES,
    WEIGHTS,
)
from neuralfield.engines.cpu.kernels.row_activations import (
    PRODUCT,
    activate_rows,
    gradients_before_rows,
    multiply,
)
from neuralfield.engines.cpu.kernels.tiles import VECTOR, product

_STEP, _WRITE = np.int64(4), np.int64(0)
"""Arguments of `product`: the stride of factors in bytes, and to overwrite instead of add."""


@register_jitable
def padded(columns):
    """Round a number of columns up to whole vectors."""
    return (columns + VECTOR - 1) // VECTOR * VECTOR


@register_jitable
def pack_rows(table, layer, frequency, first, end, parameters, factors):
    """Copy rows of a layer's parameters, times the frequency, to its WEIGHTS and TRANSPOSED."""
    fan_in, columns = table[layer, FAN_IN], table[layer, COLUMNS]
    for row in range(first, end):
        start = table[layer, PARAMETERS] + row * columns
        source = parameters[start : start + (columns if row < fan_in else table[layer, BIASES])]
        if table[layer, PAIRS] > 0 and row < fan_in:
            put_complex_row(table, layer, row, source, frequency, factors)
        else:
            put_row(table, layer, row, 0, source, frequency, factors)


@register_jitable
def set_ones(table, layer, rows, memory):
    """Fill the column of ones that biases are multiplied by."""
    if table[layer, ROWS] > table[layer, FAN_IN]:
        start = table[layer, VALUES] + table[layer, FAN_IN]
        for row in range(rows):
            memory[start + row * table[layer, IN_LENGTH]] = 1


@register_jitable
def forward(network, rows, memory, others, narrowness):
    """Compute all layers from the inputs of the first layer.

    The outputs of the last layer, before the output function, are written to its GRADIENTS. Those
    of other layers receive the derivatives of their activations or, for wavelets, z. `others` and
    `narrowness` are those of the network: branches are left out where they are None, which Numba
    finds out only for arguments.
    """
    table, factors = network.table, network.factors
    to, weights = memory.ctypes.data, factors.ctypes.data
    for layer in range(len(table) - 1):
        set_ones(table, layer, rows, memory)
        in_length, out_length = table[layer, IN_LENGTH], table[layer, OUT_LENGTH]
        in_row, out_row, b = 4 * in_length, 4 * out_length, weights + 4 * table[layer, WEIGHTS]
        columns, depth = padded(table[layer, FAN_OUT]), table[layer, ROWS]
        for first in range(0, rows, SCRATCH_ROWS):
            count = min(SCRATCH_ROWS, rows - first)
            argument = table[layer, GRADIENTS] + first * out_length
            a, c = to + 4 * table[layer, VALUES] + first * in_row, to + 4 * argument
            product(a, in_row, _STEP, b, out_row, c, out_row, count, columns, depth, _WRITE)
            if narrowness is not None and table[layer, ACTIVATION] >= PRODUCT:
                activate_rows(table, layer, first, count, memory, narrowness)
                continue
            value, length = table[layer + 1, VALUES] + first * out_length, count * out_length
            arguments = memory[argument : argument + length]
            values = memory[value : value + length]
            frequency = network.frequencies[layer]
            activate(table[layer, ACTIVATION], frequency, arguments, values, others)
    set_ones(table, len(table) - 1, rows, memory)
    forward_last(table, rows, memory, factors)


@register_jitable
def backward(network, rows, memory, gradient, add, kept, place, narrowness):
    """Propagate gradients through all layers, from the loss's in the last layer's GRADIENTS.

    `gradient` is a shard's gradient with respect to parameters times frequency; it is accumulated
    if `add`, and overwritten otherwise. Gradients with respect to the first layer's inputs are
    stored in `kept` from index `place` on, see `block.train_blocks`. For `narrowness` see
    `forward`, for the rest `layout`.
    """
    table, factors, scratch = network.table, network.factors, network.scratch
    backward_last(network, rows, memory, gradient, add, narrowness)
    to, weights = memory.ctypes.data, factors.ctypes.data
    for layer in range(len(table) - 2, -1, -1):
        in_length, fan_out = table[layer, IN_LENGTH], table[layer, FAN_OUT]
        in_row, out_row = 4 * in_length, 4 * table[layer, OUT_LENGTH]
        a, b = to + 4 * table[layer, VALUES], to + 4 * table[layer, GRADIENTS]
        c, columns = gradient.ctypes.data + 4 * table[layer, GRADIENT], padded(fan_out)
        summed = table[layer, ROWS]
        product(a, _STEP, in_row, b, out_row, c, out_row, summed, columns, rows, add)
        if layer == 0 and kept is None:
            return
        columns, b = padded(table[layer, FAN_IN]), weights + 4 * table[layer, TRANSPOSED]
        c = to + 4 * scratch
        for first in range(0, rows, SCRATCH_ROWS):
            count = min(SCRATCH_ROWS, rows - first)
            a = to + 4 * table[layer, GRADIENTS] + first * out_row
            product(a, out_row, _STEP, b, in_row, c, in_row, count, columns, fan_out, _WRITE)
            found = memory[scratch : scratch + count * in_length]
            if layer > 0:
                if narrowness is not None and table[layer - 1, ACTIVATION] >= PRODUCT:
                    gradients_before_rows(
                        table, layer - 1, first, count, memory, found, in_length, narrowness
                    )
                    continue
                before = table[layer - 1, GRADIENTS] + first * in_length
                multiply(memory[before : before + count * in_length], found)
            elif kept is not None:
                gradients = kept[1][:, place + first : place + first + count]
                _transpose(found, in_length, gradients)


@register_jitable
def _transpose(rows, length, columns):
    for value in range(len(columns)):
        column = columns[value]
        for row in range(column.size):
            column[row] = rows[row * length + value]
