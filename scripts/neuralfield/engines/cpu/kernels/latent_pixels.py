"""The synthesis of pixels from latents: squared error and gradients of a band of rows."""

import numpy as np
from numba.extending import register_jitable

from neuralfield.engines.cpu.kernels import entry_point
from neuralfield.engines.cpu.kernels.latent_enlargement import (
    copy_place,
    enlarge_row,
    enlarge_row_backward,
    line_numbers,
)
from neuralfield.engines.cpu.kernels.latent_table import (
    AROUND,
    BAND_ROWS,
    COLUMNS,
    LATENT_START,
    PIECE,
    ROWS,
    STRIDE,
)
from neuralfield.engines.cpu.kernels.tiles import (
    VECTOR,
    add_rows_multiplied,
    multiply,
    sum_vectors,
)

LATENT_SCALE = np.float32(0.25)
"""Factor on latents before the synthesis, for which weights of usual size are of use."""

_WRITE, _ADD = np.int64(0), np.int64(1)
_ZERO = np.float32(0)
_FAST = {"fastmath": {"contract"}, "error_model": "numpy"}


def pixel_work_numbers(grids: int, inputs: int, hidden: int, channels: int, columns: int) -> int:
    """Count the numbers of a thread's work memory; see `pixel_band`."""
    rows = 2 * hidden + 2 * inputs + 1 + channels + 2 * (grids - 1) * -(-columns // PIECE)
    sums = hidden * (inputs + 1) + channels * (hidden + inputs + 1)
    return rows * PIECE + sums * VECTOR + 4 * line_numbers((columns + 1) // 2)


@entry_point
def pixel_band(arrays, band, network_gradient, work):
    """Return the sum of squared errors of a band of rows, and compute the gradient of their mean.

    That for grid 0 is written to `gradient`, those for filters and weights to `network_gradient`:
    the taps of all filters, then the hidden layer's matrix and the output's.
    """
    table, image, latents = arrays.table, arrays.image, arrays.latents
    hidden_matrix, output_matrix, filters = arrays.hidden, arrays.output, arrays.filters
    enlarged, copy_gradient = arrays.copies, arrays.copy_gradients[band & 1]
    grids, channels, hidden = len(table), len(image), len(hidden_matrix)
    inputs = grids + len(arrays.around_gradients)
    rows, columns = table[0, ROWS], table[0, COLUMNS]
    depth = hidden + inputs + 1
    row_length = (columns + PIECE - 1) // PIECE * PIECE
    used = (depth + hidden + channels + inputs) * PIECE
    blocks = work[:used].reshape(depth + hidden + channels + inputs, PIECE)
    values, others = blocks[:depth], blocks[depth:]
    gradient, out = others[:hidden], others[hidden : hidden + channels]
    x_gradient = others[hidden + channels :]
    size = (grids - 1) * row_length
    row_values = work[used : used + size].reshape(grids - 1, row_length)
    row_gradient = work[used + size : used + 2 * size].reshape(grids - 1, row_length)
    used += 2 * size
    count = hidden_matrix.size + output_matrix.size
    sums = work[used : used + count * VECTOR].reshape(count, VECTOR)
    lines = work[used + sums.size :]
    sums[:] = 0
    values[depth - 1] = 1
    taps, tap_gradient = filters[:4], network_gradient[:4]
    network_gradient[: filters.size] = 0
    half_rows, half_columns = table[min(1, grids - 1), ROWS], table[min(1, grids - 1), COLUMNS]
    half = half_rows * half_columns
    first, end = band * BAND_ROWS, min(rows, (band + 1) * BAND_ROWS)
    for grid in range(1, grids):
        low, high = max(0, (first >> 1) - 2), min(half_rows, ((end - 1) >> 1) + 3)
        at = copy_place(table, grid, 1)
        copy_gradient[at + low * half_columns : at + high * half_columns] = 0
    factor = np.float32(2.0 / (rows * columns * channels))
    squares = 0.0
    for y in range(first, end):
        for grid in range(1, grids):
            place = copy_place(table, grid, 1)
            source = enlarged[place : place + half]
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
            for i in range(len(AROUND)):
                row = min(max(y + AROUND[i, 1], 0), rows - 1)
                start = table[0, LATENT_START] + row * table[0, STRIDE]
                _add_shifted(
                    latents[start : start + columns],
                    left + AROUND[i, 2],
                    values[hidden + grids + AROUND[i, 0], :count],
                )
            multiply(hidden_matrix, values[hidden:], values, padded, _WRITE)
            _rectify(values, hidden, padded)
            multiply(output_matrix, values, out, padded, _WRITE)
            for channel in range(channels):
                targets = image[channel, y, left : left + count]
                squares += _errors(out[channel], targets, factor)
            out[:, count:] = 0
            add_rows_multiplied(out, values, sums[hidden_matrix.size :], padded)
            multiply(output_matrix[:, :hidden].T, out, gradient, padded, _WRITE)
            _mask(values, gradient, padded)
            add_rows_multiplied(gradient, values[hidden:], sums, padded)
            multiply(hidden_matrix[:, :inputs].T, gradient, x_gradient, padded, _WRITE)
            multiply(output_matrix[:, hidden:-1].T, out, x_gradient, padded, _ADD)
            start = y * columns + left
            _scale(x_gradient[0, :count], arrays.gradient[start : start + count])
            for grid in range(1, grids):
                target = row_gradient[grid - 1, left : left + count]
                _scale(x_gradient[grid, :count], target)
            for i in range(grids, inputs):
                target = arrays.around_gradients[i - grids, y, left : left + count]
                _scale(x_gradient[i, :count], target)
        for grid in range(1, grids):
            place = copy_place(table, grid, 1)
            enlarge_row_backward(
                row_gradient[grid - 1, :columns],
                *(enlarged[place : place + half], half_rows, half_columns, y, taps, lines),
                *(copy_gradient[place : place + half], tap_gradient),
            )
    sum_vectors(sums, network_gradient[filters.size :])
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
