"""Muon's update of a matrix between hidden layers, as in `nn.optimizers`."""

import math

import numpy as np
from numba.extending import register_jitable

from neuralfield.engines.cpu.kernels import entry_point
from neuralfield.engines.cpu.kernels.layers import pack_rows, padded
from neuralfield.engines.cpu.kernels.layout import (
    COLUMNS,
    GRADIENT,
    OUT_LENGTH,
    PARAMETERS,
    aligned,
    row_length,
)
from neuralfield.engines.cpu.kernels.tiles import product
from neuralfield.nn.optimizers import NEWTON_SCHULZ, NEWTON_SCHULZ_STEPS, Muon

_A, _B, _C = (np.float32(factor) for factor in NEWTON_SCHULZ)
_KEPT, _FRESH = np.float32(Muon.momentum), np.float32(1 - Muon.momentum)
_PANEL = 48
"""Number of rows of a product that are computed together: whole tiles and whole vectors."""


def work_arrays(fan_in: int, fan_out: int) -> tuple[np.ndarray, ...]:
    """Make the work memory of `move_matrix`: two arrays of the matrix's size, and two squares of
    its shorter side."""
    shorter, longer = sorted((fan_in, fan_out))
    row = row_length(shorter)
    return tuple(aligned(n * row).reshape(n, row) for n in (longer, longer, shorter, shorter))


@entry_point
def move_matrix(
    table, layer, first, end, frequency, scale, gradient, momentum, parameters, factors, rate, work
):
    """Update some rows of a layer's weights, a matrix, along its orthogonalised momentum.

    `gradient` is the sum over all shards, and is multiplied by `scale`. `momentum` is that of all
    layers' parameters, and `rate` the factor of the orthogonalised matrix. `factors` are updated
    too. For `work` see `work_arrays`, for `table` see `layout`.
    """
    rows, columns = end - first, table[layer, COLUMNS]
    is_wide = rows < columns  # then x is the transpose, so that x' x is small
    x = work[0]
    squares = 0.0
    for i in range(rows):
        start = table[layer, GRADIENT] + (first + i) * table[layer, OUT_LENGTH]
        place = table[layer, PARAMETERS] + (first + i) * columns
        for j in range(columns):
            fresh = _FRESH * (scale * gradient[start + j])
            kept = _KEPT * momentum[place + j] + fresh
            momentum[place + j] = kept
            direction = _KEPT * kept + fresh
            squares += float(direction) ** 2
            if is_wide:
                x[j, i] = direction
            else:
                x[i, j] = direction
    shorter = min(rows, columns)
    _divide(x, shorter, np.float32(math.sqrt(squares)) + np.float32(1e-20))
    x = _orthogonalised(x, work[1], work[2], work[3], shorter)
    for i in range(rows):
        place = table[layer, PARAMETERS] + (first + i) * columns
        for j in range(columns):
            parameters[place + j] -= rate * (x[j, i] if is_wide else x[i, j])
    pack_rows(table, layer, frequency, first, end, parameters, factors)


@register_jitable
def _divide(x, columns, norm):
    for row in range(len(x)):
        for column in range(columns):
            x[row, column] /= norm


@register_jitable
def _orthogonalised(x, following, square, polynomial, side):
    """Replace x, of `side` columns, five times by x (a + b x' x + c (x' x)^2), and return it.

    The result is in the array `x` or in `following`, which are used in turn.
    """
    to, row_bytes = square.ctypes.data, 4 * square.shape[1]
    for _ in range(NEWTON_SCHULZ_STEPS):
        address = x.ctypes.data
        _symmetric_product(address, 4, row_bytes, address, to, row_bytes, side, len(x))
        _mirror(square, side)
        result = polynomial.ctypes.data
        _symmetric_product(to, row_bytes, 4, to, result, row_bytes, side, side)
        for row in range(side):
            for column in range(row, side):
                powers = _B * square[row, column] + _C * polynomial[row, column]
                polynomial[row, column] = powers
            polynomial[row, row] += _A
        _mirror(polynomial, side)
        for first in range(0, len(x), _PANEL):
            a, c = address + first * row_bytes, following.ctypes.data + first * row_bytes
            rows, columns = min(_PANEL, len(x) - first), padded(side)
            product(a, row_bytes, 4, result, row_bytes, c, row_bytes, rows, columns, side, 0)
        x, following = following, x
    return x


@register_jitable
def _symmetric_product(a, a_row, a_step, b, c, row_bytes, side, depth):
    """Compute at least the upper triangle of a symmetric product; see `product`."""
    for first in range(0, side, _PANEL):
        left, right, to = a + first * a_row, b + 4 * first, c + first * (row_bytes + 4)
        rows, columns = min(_PANEL, side - first), padded(side - first)
        product(left, a_row, a_step, right, row_bytes, to, row_bytes, rows, columns, depth, 0)


@register_jitable
def _mirror(square, side):
    """Copy the upper triangle of a matrix to the lower triangle."""
    for row in range(side):
        for column in range(row):
            square[row, column] = square[column, row]
