"""Enlargement of grids by 2 with symmetric filters of four taps, along columns and along rows.

Value 2 i of an enlarged line is a v[i - 2] + b v[i - 1] + c v[i] + d v[i + 1] for the taps
(a, b, c, d), and value 2 i + 1 is its mirror image: d v[i - 1] + c v[i] + b v[i + 1] + a v[i + 2].
Places outside a line are those of its ends.
"""

import numpy as np
from numba.extending import register_jitable

from neuralfield.engines.cpu.kernels import entry_point
from neuralfield.engines.cpu.kernels.latent_table import (
    COLUMNS,
    COPY_START,
    LATENT_START,
    PARAMETER_START,
    ROWS,
    STRIDE,
)

MARGIN = 4
"""Values beyond both ends of a line in work memory; a filter reaches two of them."""

_FAST = {"fastmath": {"contract"}, "error_model": "numpy"}
_REORDERED = {"fastmath": {"contract", "reassoc"}, "error_model": "numpy"}
_ZERO = np.float32(0)


@register_jitable
def line_numbers(columns: int) -> int:
    """Count the numbers of a line of a grid in work memory, of which `enlarge_row` needs one and
    `enlarge_row_backward` four."""
    return columns + 2 * MARGIN


@register_jitable
def copy_place(table, grid, size):
    """Return where the copy of a grid with the size of another one begins."""
    return table[size, COPY_START] + (grid - size) * table[size, ROWS] * table[size, COLUMNS]


@entry_point
def enlarge_grid(arrays, grid, work):
    """Enlarge a grid to the sizes of all finer grids but the finest, into `copies`."""
    table, enlarged = arrays.table, arrays.copies
    rows, columns, stride = table[grid, ROWS], table[grid, COLUMNS], table[grid, STRIDE]
    place = copy_place(table, grid, grid)
    for y in range(rows):
        start = table[grid, LATENT_START] + y * stride
        target = enlarged[place + y * columns : place + (y + 1) * columns]
        target[:] = arrays.latents[start : start + columns]
    for level in range(grid - 1, 0, -1):
        rows, columns = table[level + 1, ROWS], table[level + 1, COLUMNS]
        place, wide = copy_place(table, grid, level + 1), table[level, COLUMNS]
        source, taps = enlarged[place : place + rows * columns], arrays.filters[4 * level :][:4]
        for y in range(table[level, ROWS]):
            place = copy_place(table, grid, level) + y * wide
            enlarge_row(source, rows, columns, y, taps, work, enlarged[place : place + wide])


@entry_point
def enlarge_grid_backward(arrays, grid, filter_gradient, work):
    """Compute the gradient for a grid from that for its copy of the size of grid 1.

    That for the filters is written to `filter_gradient`, of their shape.
    """
    table, enlarged = arrays.table, arrays.copies
    filter_gradient[:] = 0
    rows, columns, place = table[1, ROWS], table[1, COLUMNS], copy_place(table, grid, 1)
    even, odd, total = arrays.copy_gradients
    for i in range(place, place + rows * columns):
        total[i] = even[i] + odd[i]
    for level in range(1, grid):
        wide, high = columns, rows
        gradient_of_copy = total[place : place + high * wide]
        rows, columns = table[level + 1, ROWS], table[level + 1, COLUMNS]
        place = copy_place(table, grid, level + 1)
        source = enlarged[place : place + rows * columns]
        target = total[place : place + rows * columns]
        target[:] = 0
        taps = slice(4 * level, 4 * level + 4)
        for y in range(high):
            row = gradient_of_copy[y * wide : (y + 1) * wide]
            enlarge_row_backward(
                *(row, source, rows, columns, y, arrays.filters[taps], work, target),
                filter_gradient[taps],
            )
    start = table[grid, PARAMETER_START]
    arrays.gradient[start : start + rows * columns] = total[place : place + rows * columns]


@register_jitable
def _row_start(rows, columns, y, tap):
    """Return where the row begins that a tap multiplies for row `y` of an enlarged grid."""
    row = (y >> 1) + (2 - tap if y & 1 else tap - 2)
    return min(max(row, 0), rows - 1) * columns


@register_jitable(**_FAST)
def _line(source, rows, columns, y, taps, line):
    """Compute a row that is enlarged along columns, from column `MARGIN` on, and its ends."""
    a, b, c, d = taps[0], taps[1], taps[2], taps[3]
    first = source[_row_start(rows, columns, y, 0) :]
    second = source[_row_start(rows, columns, y, 1) :]
    third = source[_row_start(rows, columns, y, 2) :]
    fourth = source[_row_start(rows, columns, y, 3) :]
    inner = line[MARGIN : MARGIN + columns]
    for i in range(columns):
        inner[i] = a * first[i] + b * second[i] + c * third[i] + d * fourth[i]
    line[:MARGIN] = inner[0]
    line[MARGIN + columns : columns + 2 * MARGIN] = inner[columns - 1]


@register_jitable(**_FAST)
def enlarge_row(source, rows, columns, y, taps, line, out):
    """Compute row `y` of an enlarged grid."""
    a, b, c, d = taps[0], taps[1], taps[2], taps[3]
    _line(source, rows, columns, y, taps, line)
    pairs = out.size >> 1
    v = line[MARGIN - 2 : MARGIN + columns + 2]
    for i in range(pairs):
        out[2 * i] = a * v[i] + b * v[i + 1] + c * v[i + 2] + d * v[i + 3]
        out[2 * i + 1] = d * v[i + 1] + c * v[i + 2] + b * v[i + 3] + a * v[i + 4]
    if out.size & 1:
        i = pairs
        out[2 * i] = a * v[i] + b * v[i + 1] + c * v[i + 2] + d * v[i + 3]


@register_jitable(**_FAST)
def enlarge_row_backward(gradient, source, rows, columns, y, taps, work, target, tap_gradient):
    """Add the gradient for row `y` of an enlarged grid to those for the grid and for the taps."""
    length = columns + 2 * MARGIN
    line, even, odd = work[:length], work[length : 2 * length], work[2 * length : 3 * length]
    _line(source, rows, columns, y, taps, line)
    even[:], odd[:] = 0, 0
    pairs = gradient.size >> 1
    even_inner, odd_inner = even[MARGIN:], odd[MARGIN:]
    for i in range(pairs):
        even_inner[i] = gradient[2 * i]
        odd_inner[i] = gradient[2 * i + 1]
    if gradient.size & 1:
        even_inner[pairs] = gradient[2 * pairs]
    of_line = work[3 * length : 3 * length + columns + 4]
    a, b, c, d = taps[0], taps[1], taps[2], taps[3]
    for i in range(columns + 4):
        total = a * (even[i + 4] + odd[i]) + b * (even[i + 3] + odd[i + 1])
        of_line[i] = total + c * (even[i + 2] + odd[i + 2]) + d * (even[i + 1] + odd[i + 3])
    of_line[2] += of_line[0] + of_line[1]
    of_line[columns + 1] += of_line[columns + 2] + of_line[columns + 3]
    inner = of_line[2 : 2 + columns]
    for tap in range(4):
        before, after = line[2 + tap : 2 + tap + columns], line[6 - tap : 6 - tap + columns]
        of_tap = _dot(even_inner[:columns], before) + _dot(odd_inner[:columns], after)
        place = _row_start(rows, columns, y, tap)
        tap_gradient[tap] += of_tap + _dot(inner, source[place : place + columns])
        _add_scaled(inner, taps[tap], target[place : place + columns])


@register_jitable(**_REORDERED)
def _dot(a, b):
    total = _ZERO
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@register_jitable(**_FAST)
def _add_scaled(source, factor, target):
    for i in range(source.size):
        target[i] += factor * source[i]
