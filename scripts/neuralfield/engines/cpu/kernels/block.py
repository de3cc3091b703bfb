"""Entry points: the work of a thread between two synchronizations, without the interpreter."""

import numpy as np
from numba.extending import register_jitable

from neuralfield.engines.cpu.kernels import entry_point
from neuralfield.engines.cpu.kernels.complex_weights import gather_gradients
from neuralfield.engines.cpu.kernels.encodings import encode
from neuralfield.engines.cpu.kernels.grids import CORNERS
from neuralfield.engines.cpu.kernels.layers import backward, forward, pack_rows
from neuralfield.engines.cpu.kernels.layout import FAN_OUT, GRADIENTS, OUT_LENGTH, ROWS
from neuralfield.engines.cpu.kernels.objective import losses_and_gradients, output_value
from neuralfield.engines.cpu.kernels.points import spread


@entry_point
def pack(network, parameters):
    """Copy all parameters, times their layers' frequencies, to the factors of products."""
    table, frequencies, factors = network.table, network.frequencies, network.factors
    for layer in range(len(table)):
        rows = table[layer, ROWS]
        pack_rows(table, layer, frequencies[layer], np.int64(0), rows, parameters, factors)


@register_jitable
def _working_arrays(rows, encoding):
    """Allocate a block's points and, with an encoding, their corners in a level of a hash grid."""
    if encoding is None:
        return np.empty((2, rows), np.float32), None
    corners = np.empty((CORNERS, rows), np.uint32), np.empty((CORNERS, rows), np.float32)
    return np.empty((2, rows), np.float32), corners


@entry_point
def train_blocks(network, memory, samples, objective, pixels, step, sums, kept):
    """Compute the forward pass, loss and backward pass for some pixels of a batch, by blocks.

    For `network`, `samples` and `sums` see `groups`, for `objective` see
    `objective.losses_and_gradients`; `memory` is a thread's, see `layout`. For a trained encoding,
    `kept` is a tuple of two float32 arrays of shapes (2, points) and (values, points), and an
    index. Points, and gradients with respect to their encoded values, are written to the arrays
    from this index on. If `kept` is None, nothing is stored.
    """
    table, per_pixel, totals = network.table, samples.points, sums.totals
    place = 0 if kept is None else kept[2]
    last = len(table) - 1
    length, channels = table[last, OUT_LENGTH], table[last, FAN_OUT]
    words, offsets = np.empty(4 * per_pixel + 8, np.uint64), np.zeros((per_pixel, 2))
    points, corners = _working_arrays(samples.block_pixels * per_pixel, network.encoding)
    if sums.is_first:
        totals[:] = 0
    for start in range(0, len(pixels), samples.block_pixels):
        block = pixels[start : start + samples.block_pixels]
        rows = len(block) * per_pixel
        for index in range(len(block)):
            pixel = block[index]
            if per_pixel > 1:
                spread(np.uint64(pixel), step, per_pixel, samples.seed, words, offsets)
            for point in range(per_pixel):
                row = index * per_pixel + point
                points[0, row] = samples.centres[pixel, 0] + offsets[point, 0] * samples.side
                points[1, row] = samples.centres[pixel, 1] + offsets[point, 1] * samples.side
        encode(table, memory, points, rows, network.encoding, corners)
        forward(network, rows, memory, network.others, network.narrowness)
        first = table[last, GRADIENTS]
        numbers = memory[first : first + rows * length]
        loss, squared = losses_and_gradients(numbers, length, channels, block, samples, objective)
        totals[0] += loss
        totals[1] += squared
        add = int(start > 0 or not sums.is_first)
        backward(network, rows, memory, sums.gradient, add, kept, place, network.narrowness)
        if kept is not None:
            kept_points = kept[0]
            for row in range(rows):
                kept_points[0, place + row] = points[0, row]
                kept_points[1, place + row] = points[1, row]
            place += rows
    gather_gradients(table, sums.gradient)


@entry_point
def render_blocks(network, memory, grid, pixels, block_rows, output, means, spreads):
    """Compute means and spreads of some pixels, see `rendering.Renderer`.

    For `network` and `grid` see `groups`; `memory` is a thread's, see `layout`. `pixels` are the
    first one and the end of those to render, and `output` is a tuple of the output function's
    number and its steepness. `means` has shape (pixels, channels), `spreads` (pixels,).
    """
    (first, end), (kind, steepness) = pixels, output
    table, which = network.table, grid.which
    last = len(table) - 1
    length, channels = table[last, OUT_LENGTH], table[last, FAN_OUT]
    points, corners = _working_arrays(block_rows, network.encoding)
    sums = np.empty((block_rows, channels))
    lowest, highest = np.empty((block_rows, channels)), np.empty((block_rows, channels))
    for start in range(first, end, block_rows):
        count = min(block_rows, end - start)
        sums[:], lowest[:], highest[:] = 0, np.inf, -np.inf
        for sample in range(len(grid.offsets)):
            across, down = grid.offsets[sample]
            for index in range(count):
                pixel = which[start + index] if len(which) else start + index
                points[0, index] = grid.columns[pixel % len(grid.columns)] + across
                points[1, index] = grid.rows[pixel // len(grid.columns)] + down
            encode(table, memory, points, count, network.encoding, corners)
            forward(network, count, memory, network.others, network.narrowness)
            for index in range(count):
                place = table[last, GRADIENTS] + index * length
                for channel in range(channels):
                    z = float(memory[place + channel])
                    value = output_value(kind, steepness, z)
                    sums[index, channel] += value
                    lowest[index, channel] = min(lowest[index, channel], value)
                    highest[index, channel] = max(highest[index, channel], value)
        for index in range(count):
            widest = 0.0
            for channel in range(channels):
                means[start + index, channel] = sums[index, channel] / len(grid.offsets)
                widest = max(widest, highest[index, channel] - lowest[index, channel])
            spreads[start + index] = widest
