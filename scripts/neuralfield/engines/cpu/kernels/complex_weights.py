"""Weights of complex numbers as the real matrices that products use.

A row of values has its real parts first, then its imaginary parts. Weights A + i B, which are
stored as A followed by B in the parameters, become the matrix [[A, B], [-B, A]], or only the first
half of its columns if a layer's outputs are only the real parts.
"""

from numba.extending import register_jitable

from neuralfield.engines.cpu.kernels.layout import (
    COLUMNS,
    FAN_IN,
    FAN_OUT,
    GRADIENT,
    IN_LENGTH,
    OUT_LENGTH,
    PAIRS,
    TRANSPOSED,
    WEIGHTS,
)


@register_jitable
def put_row(table, layer, row, column, source, frequency, factors):
    """Write numbers, times the frequency, to a row of the matrix and a column of its transpose."""
    start = table[layer, WEIGHTS] + row * table[layer, OUT_LENGTH] + column
    target = factors[start : start + source.size]
    for i in range(source.size):
        target[i] = source[i] * frequency
    if row < table[layer, FAN_IN]:
        start = table[layer, TRANSPOSED] + row + column * table[layer, IN_LENGTH]
        for i in range(source.size):
            factors[start + i * table[layer, IN_LENGTH]] = target[i]


@register_jitable
def put_complex_row(table, layer, row, source, frequency, factors):
    """Write a row of A, or of B after all rows of A, to both of its places in the matrix."""
    pairs, columns = table[layer, PAIRS], table[layer, COLUMNS]
    is_real = row < pairs
    put_row(table, layer, row, 0, source, frequency if is_real else -frequency, factors)
    if columns < table[layer, FAN_OUT]:  # there are imaginary parts
        other = row + pairs if is_real else row - pairs
        put_row(table, layer, other, columns, source, frequency, factors)


@register_jitable
def gather_gradients(table, gradient):
    """Add up the gradients of each number's two places, into the first COLUMNS of all rows.

    The rows of A's gradient are then followed by those of B's, as in the parameters.
    """
    for layer in range(len(table)):
        pairs, columns = table[layer, PAIRS], table[layer, COLUMNS]
        has_imaginary_parts = columns < table[layer, FAN_OUT]
        for row in range(pairs):
            upper = table[layer, GRADIENT] + row * table[layer, OUT_LENGTH]
            lower = upper + pairs * table[layer, OUT_LENGTH]
            for i in range(columns):
                by_imaginary = -gradient[lower + i]
                if has_imaginary_parts:
                    gradient[upper + i] += gradient[lower + columns + i]
                    by_imaginary += gradient[upper + columns + i]
                gradient[lower + i] = by_imaginary
