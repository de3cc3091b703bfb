"""Entry points: what a thread does between two looks at the others, without any Python."""

import numpy as np
from numba import njit

from neuralfield.kernels.cpu.layout import FAN_OUT, OUT_LENGTH, ROWS, SLOPES
from neuralfield.kernels.cpu.network import backward, forward, pack_rows
from neuralfield.kernels.cpu.objective import losses_and_slopes, output_value
from neuralfield.kernels.cpu.points import put_point, spread


@njit(nogil=True, cache=True)
def pack(table, frequencies, parameters, factors):
    """Put all parameters among the factors of products."""
    for layer in range(len(table)):
        rows = table[layer, ROWS]
        pack_rows(table, layer, frequencies[layer], 0, rows, parameters, factors)


@njit(nogil=True, cache=True)
def train_blocks(
    table,
    memory,
    scratch,
    factors,
    gradient,
    pixels,
    block_pixels,
    centres,
    targets,
    weights,
    footprint,
    encoding,
    frequencies,
    objective,
    totals,
):
    """Forward, loss and backward for some pixels of a batch, block by block.

    Parameters
    ----------
    table, memory, scratch, factors
        See `layout`.
    gradient : array of float32
        Written: of all these pixels.
    pixels : array of int64
    block_pixels : int
    centres : array of float32, shape (all pixels, 2)
    targets, weights, objective
        See `objective.losses_and_slopes`.
    footprint : tuple
        Points of a pixel, its side, the step, and the seed.
    encoding, frequencies
        See `points.put_point`.
    totals : array of float64, shape (2,)
        Written: loss and squared error.
    """
    points, side, step, seed = footprint
    last = len(table) - 1
    length, channels = table[last, OUT_LENGTH], table[last, FAN_OUT]
    words, offsets = np.empty(4 * points + 8, np.uint64), np.zeros((points, 2))
    totals[:] = 0
    for start in range(0, len(pixels), block_pixels):
        block = pixels[start : start + block_pixels]
        for index in range(len(block)):
            pixel = block[index]
            if points > 1:
                spread(np.uint64(pixel), step, points, seed, words, offsets)
            for point in range(points):
                x = np.float32(centres[pixel, 0] + offsets[point, 0] * side)
                y = np.float32(centres[pixel, 1] + offsets[point, 1] * side)
                put_point(table, memory, index * points + point, x, y, encoding, frequencies)
        rows = len(block) * points
        forward(table, rows, memory, factors)
        first = table[last, SLOPES]
        numbers = memory[first : first + rows * length]
        loss, squared = losses_and_slopes(
            numbers, length, channels, block, points, targets, weights, objective
        )
        totals[0] += loss
        totals[1] += squared
        backward(table, rows, memory, scratch, factors, gradient, int(start > 0))


@njit(nogil=True, cache=True)
def draw_blocks(
    table,
    memory,
    factors,
    columns,
    rows,
    offsets,
    which,
    first,
    end,
    block_rows,
    encoding,
    frequencies,
    output,
    means,
    spreads,
):
    """Means and spreads of pixels, see `neuralfield.drawing.Drawer`.

    Parameters
    ----------
    table, memory, factors
        See `layout`.
    columns, rows, offsets : array of float64
    which : array of int64
        Numbers of the pixels to draw; empty: all.
    first, end : int
        Which of them.
    block_rows : int
        Pixels that pass through the network together.
    encoding, frequencies
        See `points.put_point`.
    output : tuple
        Its number, and steepness.
    means : array of float32, shape (pixels, channels)
    spreads : array of float32, shape (pixels,)
        Written, from `first` to `end`.
    """
    kind, steepness = output
    last = len(table) - 1
    length, channels = table[last, OUT_LENGTH], table[last, FAN_OUT]
    sums = np.empty((block_rows, channels))
    lowest, highest = np.empty((block_rows, channels)), np.empty((block_rows, channels))
    for start in range(first, end, block_rows):
        count = min(block_rows, end - start)
        sums[:], lowest[:], highest[:] = 0, np.inf, -np.inf
        for sample in range(len(offsets)):
            for index in range(count):
                pixel = which[start + index] if len(which) else start + index
                x = np.float32(columns[pixel % len(columns)] + offsets[sample, 0])
                y = np.float32(rows[pixel // len(columns)] + offsets[sample, 1])
                put_point(table, memory, index, x, y, encoding, frequencies)
            forward(table, count, memory, factors)
            for index in range(count):
                place = table[last, SLOPES] + index * length
                for channel in range(channels):
                    z = float(memory[place + channel])
                    value = output_value(kind, steepness, z)
                    sums[index, channel] += value
                    lowest[index, channel] = min(lowest[index, channel], value)
                    highest[index, channel] = max(highest[index, channel], value)
        for index in range(count):
            widest = 0.0
            for channel in range(channels):
                means[start + index, channel] = sums[index, channel] / len(offsets)
                widest = max(widest, highest[index, channel] - lowest[index, channel])
            spreads[start + index] = widest
