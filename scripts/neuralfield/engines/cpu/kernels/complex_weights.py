"""Weights of complex numbers as the real matrices that products are made with.

Values are rows of real parts, then imaginary parts. Weights A + i B, whose A and then B lie among
the parameters, are the matrix [[A, B], [-B, A]]; its first half of columns where real parts alone
go out.
"""

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
from neuralfield.engines.cpu.kernels.parts import kernel_part


@kernel_part
def put_row(table, layer, row, column, source, frequency, factors):
    """Put numbers, times the frequency, into a row of the matrix, and of its transpose."""
    start = table[layer, WEIGHTS] + row * table[layer, OUT_LENGTH] + column
    target = factors[start : start + source.size]
    for i in range(source.size):
        target[i] = source[i] * frequency
    if row < table[layer, FAN_IN]:
        start = table[layer, TRANSPOSED] + row + column * table[layer, IN_LENGTH]
        for i in range(source.size):
            factors[start + i * table[layer, IN_LENGTH]] = target[i]


@kernel_part
def put_complex_row(table, layer, row, source, frequency, factors):
    """Put a row of A, or after them one of B, into its two places in the matrix."""
    pairs, columns = table[layer, PAIRS], table[layer, COLUMNS]
    has_imaginary_parts = columns < table[layer, FAN_OUT]
    if row < pairs:
        put_row(table, layer, row, 0, source, frequency, factors)
        if has_imaginary_parts:
            put_row(table, layer, row + pairs, columns, source, frequency, factors)
    else:
        put_row(table, layer, row, 0, source, -frequency, factors)
        if has_imaginary_parts:
            put_row(table, layer, row - pairs, columns, source, frequency, factors)


@kernel_part
def gather_gradients(table, gradient):
    """Add up what belongs to the same number: into the first COLUMNS of all rows.

    The rows of A's gradient are then followed by those of B's, as among the parameters.
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
