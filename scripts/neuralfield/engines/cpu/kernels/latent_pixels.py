"""The synthesis of pixels from latents: squared error and gradients of a band of rows."""

import numpy as np
from numba.extending import register_jitable

from neuralfield.engines.cpu.kernels import entry_point
from neuralfield.engines.cpu.kernels.latent_enlargement import (
    enlarge_row,
    enlarge_row_backward,
    line_numbers,
)
from neuralfield.engines.cpu.kernels.latent_table import (
    BAND_ROWS,
    COLUMNS,
    LATENT_START,
    ROWS,
    STRIDE,
)
from neuralfield.engines.cpu.kernels.tiles import VECTOR, add_row_products, product

PIECE = 64
"""Number of pixels that are evaluated together; their arrays fit into a core's caches."""

LATENT_SCALE = np.float32(0.25)
"""Factor on latents before the synthesis, for which weights of usual size are of use."""

_WRITE, _ADD, _STEP, _ROW = np.int64(0), np.int64(1), np.int64(4), np.int64(4 * PIECE)
_ZERO = np.float32(0)
_FAST = {"fastmath": {"contract"}, "error_model": "numpy"}


@register_jitable
def _lengths(grids, inputs, hidden, channels, columns):
    """Return the lengths of the parts of a thread's work memory."""
    rows = hidden + inputs + 1
    padded = (columns + PIECE - 1) // PIECE * PIECE
    sums = (hidden * (inputs + 1) + channels * rows) * VECTOR
    lines = 4 * line_numbers((columns + 1) // 2)
    return rows * PIECE, hidden * PIECE, channels * PIECE, (grids - 1) * padded, sums, lines


def pixel_work_numbers(grids: int, inputs: int, hidden: int, channels: int, columns: int) -> int:
    """Count the numbers of a thread's work memory; see `pixel_band`."""
    values, of_hidden, out, rows, sums, lines = _lengths(grids, inputs, hidden, channels, columns)
    return values + of_hidden + out + inputs * PIECE + 2 * rows + sums + lines


@entry_point
def pixel_band(
    table,
    places,
    band,
    image,
    latents,
    enlarged,
    filters,
    hidden_weights,
    output_weights,
    around,
    grid_gradient,
    around_gradient,
    copy_gradient,
    network_gradient,
    work,
):
    """Return the sum of squared errors of a band of rows, and the gradient of their mean.

    `image` has shape (channels, rows, columns); `around` has a row (input, rows, columns) for each
    offset of `SURROUNDINGS`. The gradient for grid 0 is written to `grid_gradient`, that for each
    pixel's sums of its surroundings to `around_gradient`, shape (sums, rows, columns), that for the
    copies of the size of grid 1 to `copy_gradient`, those for filters and weights to
    `network_gradient`: the taps of all filters, then the hidden layer's matrix and the output's.
    """
    grids, channels = len(table), len(image)
    inputs = grids + len(around_gradient)
    hidden = hidden_weights.size // (inputs + 1)
    rows, columns = table[0, ROWS], table[0, COLUMNS]
    depth, with_ones = hidden + inputs + 1, inputs + 1
    lengths = _lengths(grids, inputs, hidden, channels, columns)
    of_values, of_hidden, of_out, of_rows, of_sums, _ = lengths
    values = work[:of_values].reshape(depth, PIECE)
    place = of_values
    gradient = work[place : place + of_hidden].reshape(hidden, PIECE)
    place += of_hidden
    out = work[place : place + of_out].reshape(channels, PIECE)
    place += of_out
    x_gradient = work[place : place + inputs * PIECE].reshape(inputs, PIECE)
    place += inputs * PIECE
    row_length = of_rows // max(1, grids - 1)
    row_values = work[place : place + of_rows].reshape(grids - 1, row_length)
    row_gradient = work[place + of_rows : place + 2 * of_rows].reshape(grids - 1, row_length)
    place += 2 * of_rows
    sums = work[place : place + of_sums]
    lines = work[place + of_sums :]
    sums[:] = 0
    values[depth - 1] = 1
    taps, tap_gradient = filters[:4], network_gradient[:4]
    network_gradient[: filters.size] = 0
    hidden_at, output_at = hidden_weights.ctypes.data, output_weights.ctypes.data
    hidden_row, output_row = np.int64(4 * with_ones), np.int64(4 * depth)
    values_at, gradient_at, out_at = values.ctypes.data, gradient.ctypes.data, out.ctypes.data
    x_at, x_gradient_at = values_at + hidden * _ROW, x_gradient.ctypes.data
    hidden_sums = sums.ctypes.data
    output_sums = hidden_sums + 4 * VECTOR * hidden_weights.size
    half_rows, half_columns = table[min(1, grids - 1), ROWS], table[min(1, grids - 1), COLUMNS]
    half = half_rows * half_columns
    first, end = band * BAND_ROWS, min(rows, (band + 1) * BAND_ROWS)
    for grid in range(1, grids):
        low, high = max(0, (first >> 1) - 2), min(half_rows, ((end - 1) >> 1) + 3)
        at = places[grid, 1]
        copy_gradient[at + low * half_columns : at + high * half_columns] = 0
    factor = np.float32(2.0 / (rows * columns * channels))
    squares = 0.0
    for y in range(first, end):
        for grid in range(1, grids):
            source = enlarged[places[grid, 1] : places[grid, 1] + half]
            target = row_values[grid - 1, :columns]
            enlarge_row(source, half_rows, half_columns, y, taps, lines, target)
        for left in range(0, columns, PIECE):
            count = min(PIECE, columns - left)
            padded = np.int64((count + VECTOR - 1) // VECTOR * VECTOR)
            start = table[0, LATENT_START] + y * table[0, STRIDE] + left
            # else numbers of earlier work, which may be NaN, times gradients of 0 would be added
            values[hidden : depth - 1, count:padded] = 0
            _scale(latents[start : start + count], values[hidden])
            for grid in range(1, grids):
                _scale(row_values[grid - 1, left : left + count], values[hidden + grid])
            values[hidden + grids : depth - 1, :count] = 0
            for i in range(len(around)):
                row = min(max(y + around[i, 1], 0), rows - 1)
                start = table[0, LATENT_START] + row * table[0, STRIDE]
                _add_shifted(
                    latents[start : start + columns],
                    left + around[i, 2],
                    values[hidden + grids + around[i, 0], :count],
                )
            product(
                *(hidden_at, hidden_row, _STEP, x_at, _ROW, values_at, _ROW),
                *(hidden, padded, with_ones, _WRITE),
            )
            _rectify(values, hidden, padded)
            product(
                *(output_at, output_row, _STEP, values_at, _ROW, out_at, _ROW),
                *(channels, padded, depth, _WRITE),
            )
            for channel in range(channels):
                targets = image[channel, y, left : left + count]
                squares += _errors(out[channel], targets, factor)
            out[:, count:] = 0
            add_row_products(out_at, _ROW, values_at, _ROW, output_sums, channels, depth, padded)
            product(
                *(output_at, _STEP, output_row, out_at, _ROW, gradient_at, _ROW),
                *(hidden, padded, channels, _WRITE),
            )
            _mask(values, gradient, padded)
            add_row_products(gradient_at, _ROW, x_at, _ROW, hidden_sums, hidden, with_ones, padded)
            product(
                *(hidden_at, _STEP, hidden_row, gradient_at, _ROW, x_gradient_at, _ROW),
                *(inputs, padded, hidden, _WRITE),
            )
            product(
                *(output_at + 4 * hidden, _STEP, output_row, out_at, _ROW, x_gradient_at, _ROW),
                *(inputs, padded, channels, _ADD),
            )
            start = y * columns + left
            _scale(x_gradient[0, :count], grid_gradient[start : start + count])
            for grid in range(1, grids):
                target = row_gradient[grid - 1, left : left + count]
                _scale(x_gradient[grid, :count], target)
            for i in range(grids, inputs):
                target = around_gradient[i - grids, y, left : left + count]
                _scale(x_gradient[i, :count], target)
        for grid in range(1, grids):
            place = places[grid, 1]
            enlarge_row_backward(
                row_gradient[grid - 1, :columns],
                *(enlarged[place : place + half], half_rows, half_columns, y, taps, lines),
                *(copy_gradient[place : place + half], tap_gradient),
            )
    for i in range(sums.size // VECTOR):
        total = _ZERO
        for number in sums[i * VECTOR : (i + 1) * VECTOR]:
            total += number
        network_gradient[filters.size + i] = total
    return squares


@register_jitable(**_FAST)
def _scale(source, target):
    for i in range(source.size):
        target[i] = LATENT_SCALE * source[i]


@register_jitable(**_FAST)
def _add_shifted(row, first, target):
    """Add scaled numbers of a row from `first` on, where places outside are those of its ends."""
    if first >= 0 and first + target.size <= row.size:
        part = row[first : first + target.size]
        for j in range(target.size):
            target[j] += LATENT_SCALE * part[j]
        return
    for j in range(target.size):
        target[j] += LATENT_SCALE * row[min(max(first + j, 0), row.size - 1)]


@register_jitable(**_FAST)
def _rectify(values, rows, count):
    for i in range(rows):
        row = values[i]
        for j in range(count):
            row[j] = row[j] if row[j] > 0 else _ZERO


@register_jitable(**_FAST)
def _mask(values, gradient, count):
    """Set gradients to 0 where the value of a rectified unit is 0."""
    for i in range(len(gradient)):
        row, of_row = values[i], gradient[i]
        for j in range(count):
            of_row[j] = of_row[j] if row[j] > 0 else _ZERO


@register_jitable(fastmath={"contract", "reassoc"}, error_model="numpy")
def _errors(out, targets, factor):
    """Replace values by their gradients, and return the sum of squared errors."""
    total = _ZERO
    for i in range(targets.size):
        error = out[i] - targets[i]
        total += error * error
        out[i] = factor * error
    return total
