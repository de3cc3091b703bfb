"""Entry points: the work of a thread between two synchronizations, without the interpreter."""

import numpy as np

from neuralfield.engines.cpu.kernels import entry_point
from neuralfield.engines.cpu.kernels.complex_weights import gather_gradients
from neuralfield.engines.cpu.kernels.encodings import encode
from neuralfield.engines.cpu.kernels.grids import CORNERS
from neuralfield.engines.cpu.kernels.layers import backward, forward, pack_rows
from neuralfield.engines.cpu.kernels.layout import FAN_OUT, GRADIENTS, OUT_LENGTH, ROWS
from neuralfield.engines.cpu.kernels.objective import losses_and_gradients, output_value
from neuralfield.engines.cpu.kernels.parts import kernel_part
from neuralfield.engines.cpu.kernels.points import spread


@entry_point
def pack(table, frequencies, parameters, factors):
    """Copy all parameters, times their layers' frequencies, to the factors of products."""
    for layer in range(len(table)):
        rows = table[layer, ROWS]
        pack_rows(table, layer, frequencies[layer], np.int64(0), rows, parameters, factors)


@kernel_part
def _working_arrays(rows, encoding):
    """Allocate a block's points and, with an encoding, their corners in a level of a hash grid."""
    if encoding is None:
        return np.empty((2, rows), np.float32), None
    corners = np.empty((CORNERS, rows), np.uint32), np.empty((CORNERS, rows), np.float32)
    return np.empty((2, rows), np.float32), corners


@entry_point
def train_blocks(
    table,
    frequencies,
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
    objective,
    kept,
    others,
    narrowness,
    is_first,
    totals,
):
    """Compute the forward pass, loss and backward pass for some pixels of a batch, by blocks.

    For the arguments of other functions see `layout`, `encodings.encode` and
    `objective.losses_and_gradients`. `centres` has shape (all pixels, 2); `footprint` is a tuple of
    the points per pixel, the pixel's side, the step, and the seed. `gradient` (of the layers'
    parameters) and `totals` (loss and squared error) are overwritten if `is_first`, and accumulated
    otherwise.

    For a trained encoding, `kept` is a tuple of two float32 arrays of shapes (2, points) and
    (values, points), and an index. Points, and gradients with respect to their encoded values, are
    written to the arrays from this index on. If `kept` is None, nothing is stored. For `others` and
    `narrowness` see `layers.forward`.
    """
    per_pixel, side, step, seed = footprint
    place = 0 if kept is None else kept[2]
    last = len(table) - 1
    length, channels = table[last, OUT_LENGTH], table[last, FAN_OUT]
    words, offsets = np.empty(4 * per_pixel + 8, np.uint64), np.zeros((per_pixel, 2))
    points, corners = _working_arrays(block_pixels * per_pixel, encoding)
    if is_first:
        totals[:] = 0
    for start in range(0, len(pixels), block_pixels):
        block = pixels[start : start + block_pixels]
        rows = len(block) * per_pixel
        for index in range(len(block)):
            pixel = block[index]
            if per_pixel > 1:
                spread(np.uint64(pixel), step, per_pixel, seed, words, offsets)
            for point in range(per_pixel):
                row = index * per_pixel + point
                points[0, row] = centres[pixel, 0] + offsets[point, 0] * side
                points[1, row] = centres[pixel, 1] + offsets[point, 1] * side
        encode(table, memory, points, rows, encoding, corners)
        forward(table, frequencies, rows, memory, factors, others, narrowness)
        first = table[last, GRADIENTS]
        numbers = memory[first : first + rows * length]
        loss, squared = losses_and_gradients(
            numbers, length, channels, block, per_pixel, targets, weights, objective
        )
        totals[0] += loss
        totals[1] += squared
        add = int(start > 0 or not is_first)
        backward(table, rows, memory, scratch, factors, gradient, add, kept, place, narrowness)
        if kept is not None:
            kept_points = kept[0]
            for row in range(rows):
                kept_points[0, place + row] = points[0, row]
                kept_points[1, place + row] = points[1, row]
            place += rows
    if narrowness is not None:
        gather_gradients(table, gradient)


@entry_point
def render_blocks(
    table,
    frequencies,
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
    output,
    others,
    narrowness,
    means,
    spreads,
):
    """Compute means and spreads of the pixels `first` to `end`, see `rendering.Renderer`.

    For the arguments of other functions see `layout` and `encodings.encode`. `which` has the
    numbers of the pixels to render; if it is empty, all are rendered. `output` is a tuple of the
    output function's number and its steepness. `means` has shape (pixels, channels), `spreads`
    (pixels,). For `others` and `narrowness` see `layers.forward`.
    """
    kind, steepness = output
    last = len(table) - 1
    length, channels = table[last, OUT_LENGTH], table[last, FAN_OUT]
    points, corners = _working_arrays(block_rows, encoding)
    sums = np.empty((block_rows, channels))
    lowest, highest = np.empty((block_rows, channels)), np.empty((block_rows, channels))
    for start in range(first, end, block_rows):
        count = min(block_rows, end - start)
        sums[:], lowest[:], highest[:] = 0, np.inf, -np.inf
        for sample in range(len(offsets)):
            for index in range(count):
                pixel = which[start + index] if len(which) else start + index
                points[0, index] = columns[pixel % len(columns)] + offsets[sample, 0]
                points[1, index] = rows[pixel // len(columns)] + offsets[sample, 1]
            encode(table, memory, points, count, encoding, corners)
            forward(table, frequencies, count, memory, factors, others, narrowness)
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
                means[start + index, channel] = sums[index, channel] / len(offsets)
                widest = max(widest, highest[index, channel] - lowest[index, channel])
            spreads[start + index] = widest
