"""Compiled functions of the codec; neuralfield.coding.reference_decoder is the same in NumPy.

Products and sums fit in 32 bits, see `neuralfield.coding.coded_image.Layer`.
"""

from pathlib import Path

import numpy as np
from numba.extending import register_jitable

from neuralfield.coding.coded_image import LARGEST_VALUE, VALUE_BITS
from neuralfield.coding.context import FEATURES, INPUTS, NEIGHBOURS, WAVE_STEP
from neuralfield.coding.laplace import (
    LARGEST_MEAN,
    LARGEST_SCALE,
    LEAST_SCALE,
    PROBABILITY_BITS,
)
from neuralfield.system.compiled_kernels import compiler_of

entry_point = compiler_of(
    "codec_kernels",
    [Path(__file__).with_name(f"{n}.py") for n in ("coded_image", "context", "kernels", "laplace")],
)

SYMBOLS, BYTES, IS_CUT = range(3)
"""Places in `cursor`: symbols so far, bytes so far, and whether bytes are missing."""

LEAST_STATE = 1 << 23
"""States of the range coder are from this to 2 ** 31 - 1; an empty stream has the least one."""

_BLOCK = 256
"""Number of latents, or of pixels, whose layers are computed together, in a core's cache."""

_LEAST = np.int32(-LARGEST_VALUE)
_MOST = np.int32(LARGEST_VALUE)
_TOTAL = 1 << PROBABILITY_BITS
_OFFSETS = np.array(NEIGHBOURS)
_BACK = -(_OFFSETS @ (WAVE_STEP, 1))  # by how many waves each neighbour is earlier
_RING = 1 << int(_BACK.max()).bit_length()
_PAD = int(abs(_OFFSETS).max())
_UP = -_OFFSETS[:, 0]


@register_jitable
def _clamped(value):
    return min(max(value, _LEAST), _MOST)


@register_jitable
def _apply(weights, bias, bits, inputs, outputs, count):
    """Compute a layer of `count` columns of `inputs`, int32, shape (inputs, at least count)."""
    for o in range(weights.shape[0]):
        sums = outputs[o]
        for j in range(count):
            sums[j] = bias[o]
        for i in range(weights.shape[1]):
            weight = weights[o, i]
            if weight != 0:
                row = inputs[i]
                for j in range(count):
                    sums[j] += weight * row[j]
        for j in range(count):
            sums[j] = _clamped(sums[j] >> bits)


@register_jitable
def _apply_residual(weights, bias, bits, inputs, outputs, count):
    _apply(weights, bias, bits, inputs, outputs, count)
    for o in range(weights.shape[0]):
        for j in range(count):
            outputs[o, j] = _clamped(max(outputs[o, j], np.int32(0)) + inputs[o, j])


@register_jitable
def _cumulative(value, largest, mean, scale, tables):
    """Return the sum of the frequencies of -largest to value - 1, out of 2^16."""
    if value == -largest:
        return 0
    if value > largest:
        return _TOTAL
    x = (2 * value - 1) * 128 - mean
    octaves = (min(abs(x), 65535) * tables[0, scale & 63]) >> (11 + (scale >> 6))
    whole, mass = octaves >> 12, 0
    if whole < 16:
        mass = ((tables[0, (octaves >> 6) & 63] * tables[1, octaves & 63]) >> 15) >> whole
    free = _TOTAL - 2 * largest - 1
    share = (free * mass) >> 16
    return value + largest + (share if x <= 0 else free - share)


@register_jitable
def _code(value, largest, mean, scale, tables, stream, states, cursor, intervals):
    """Decode a value, or, if there are `intervals` to write, write the interval of `value`."""
    number = cursor[SYMBOLS]
    cursor[SYMBOLS] += 1
    if intervals.size:
        start = _cumulative(value, largest, mean, scale, tables)
        intervals[number, 0] = start
        intervals[number, 1] = _cumulative(value + 1, largest, mean, scale, tables) - start
        return value
    lane = number & (states.size - 1)
    state = np.int64(states[lane])
    slot = state & (_TOTAL - 1)
    found = min(max((mean + 128) >> 8, -largest), largest)
    start = _cumulative(found, largest, mean, scale, tables)
    end = _cumulative(found + 1, largest, mean, scale, tables)
    while slot < start:
        found, end = found - 1, start
        start = _cumulative(found, largest, mean, scale, tables)
    while slot >= end:
        found, start = found + 1, end
        end = _cumulative(found + 1, largest, mean, scale, tables)
    state = (end - start) * (state >> PROBABILITY_BITS) + slot - start
    while state < LEAST_STATE:
        if cursor[BYTES] == stream.size:
            cursor[IS_CUT] = 1
            state = LEAST_STATE
        else:
            state = state << 8 | np.int64(stream[cursor[BYTES]])
            cursor[BYTES] += 1
    states[lane] = state
    return found


@entry_point
def code_values(values, largest, scale, tables, stream, states, cursor, intervals):
    """Code independent `values`, int32, of at most `largest` in size, with mean 0; see `_code`."""
    for i in range(values.size):
        values[i] = _code(values[i], largest, 0, scale, tables, stream, states, cursor, intervals)


@entry_point
def code_grid(
    latents, largest, features, weights, biases, bits, tables, stream, states, cursor, intervals
):
    """Code a grid in waves: decode `latents`, int8, or write the intervals of all of them.

    `features` are those of `neuralfield.coding.context.coarse_features`. The rate model's
    `weights`, int32, have shape (2 INPUTS + 2, INPUTS); `biases` and `bits` are of its layers, see
    `neuralfield.coding.coded_image.Layer.shifted_bias`.
    """
    rows, columns = latents.shape
    recent = np.zeros((_RING, rows + 2 * _PAD), np.int32)
    x, h, h2, z = [np.empty((INPUTS, _BLOCK), np.int32) for _ in range(4)]
    for wave in range(columns + WAVE_STEP * (rows - 1)):
        first = max(0, (wave - columns + WAVE_STEP) // WAVE_STEP)
        end = min(rows, wave // WAVE_STEP + 1)
        own = recent[wave % _RING]
        for y in range(first, end + 2 * _PAD):
            own[y] = 0
        for start in range(first, end, _BLOCK):
            count = min(_BLOCK, end - start)
            for i in range(len(_BACK)):
                above = _PAD + start - _UP[i]
                earlier = recent[(wave - _BACK[i]) % _RING]
                for j in range(count):
                    x[i, j] = earlier[above + j]
            for i in range(FEATURES):
                for j in range(count):
                    y = start + j
                    value = np.int32(features[i, y, wave - WAVE_STEP * y])
                    x[len(_BACK) + i, j] = value << VALUE_BITS
            _apply_residual(weights[:INPUTS], biases[:INPUTS], bits[0], x, h, count)
            second = slice(INPUTS, 2 * INPUTS)
            _apply_residual(weights[second], biases[second], bits[1], h, h2, count)
            _apply(weights[2 * INPUTS :], biases[2 * INPUTS :], bits[2], h2, z, count)
            for j in range(count):
                y = start + j
                column = wave - WAVE_STEP * y
                mean = min(max(np.int64(z[0, j]), -LARGEST_MEAN), LARGEST_MEAN)
                scale = min(max(np.int64(z[1, j]) >> 2, LEAST_SCALE), LARGEST_SCALE)
                value = _code(
                    np.int64(latents[y, column]),
                    *(largest, mean, scale, tables, stream, states, cursor, intervals),
                )
                latents[y, column] = value
                own[_PAD + y] = value << VALUE_BITS
        if cursor[IS_CUT]:
            return


@entry_point
def range_encoded(intervals, states, stream):
    """Encode symbols with `intervals` (start, frequency), int32; return the number of bytes.

    rANS (J. Duda, "Asymmetric numeral systems", arXiv:1311.2540), symbol i in state i mod the
    number of states. The stream is the end of `stream`, as many bytes as are returned.
    """
    place = stream.size
    for i in range(len(intervals) - 1, -1, -1):
        lane = i & (states.size - 1)
        state, frequency = np.int64(states[lane]), np.int64(intervals[i, 1])
        while state >= frequency << 15:
            place -= 1
            stream[place] = state & 0xFF
            state >>= 8
        states[lane] = (state // frequency << 16) + state % frequency + intervals[i, 0]
    return stream.size - place


@entry_point
def enlarge(values, taps, bits, high, wide):
    """Enlarge a grid by 2, int16, to a shape; see `neuralfield.coding.coded_image`."""
    rows, columns = values.shape
    target = np.empty((high, wide), np.int16)
    half = np.int32((1 << bits) >> 1)
    line = np.empty(columns + 4, np.int32)
    a, b, c, d = taps
    for row in range(target.shape[0]):
        near = row >> 1
        p, q, r, s = (a, b, c, d) if row & 1 == 0 else (d, c, b, a)
        first = near - 2 + (row & 1)
        one, two = values[max(first, 0)], values[min(max(first + 1, 0), rows - 1)]
        three, four = values[min(first + 2, rows - 1)], values[min(first + 3, rows - 1)]
        for i in range(columns):
            total = p * one[i] + q * two[i] + r * three[i] + s * four[i] + half
            line[i + 2] = _clamped(np.int32(total) >> bits)
        line[0] = line[1] = line[2]
        line[columns + 2] = line[columns + 3] = line[columns + 1]
        even, odd = target[row, ::2], target[row, 1::2]
        for i in range(even.size):
            total = a * line[i] + b * line[i + 1] + c * line[i + 2] + d * line[i + 3] + half
            even[i] = _clamped(np.int32(total) >> bits)
        for i in range(odd.size):
            total = d * line[i + 1] + c * line[i + 2] + b * line[i + 3] + a * line[i + 4] + half
            odd[i] = _clamped(np.int32(total) >> bits)
    return target


@entry_point
def synthesise(values, hidden, hidden_bias, hidden_bits, output, output_bias, output_bits):
    """Compute the levels, uint8, shape (n, channels), of pixels of latents, int16, shape (K, n)."""
    grids, units = values.shape[0], len(hidden)
    inputs = np.empty((units + grids, _BLOCK), np.int32)
    results = np.empty((len(output), _BLOCK), np.int32)
    levels = np.empty((values.shape[1], len(output)), np.uint8)
    for start in range(0, values.shape[1], _BLOCK):
        count = min(_BLOCK, values.shape[1] - start)
        for i in range(grids):
            for j in range(count):
                inputs[units + i, j] = values[i, start + j]
        _apply(hidden, hidden_bias, hidden_bits, inputs[units:], inputs, count)
        for i in range(units):
            for j in range(count):
                inputs[i, j] = max(inputs[i, j], np.int32(0))
        _apply(output, output_bias, output_bits, inputs, results, count)
        for i in range(len(output)):
            for j in range(count):
                level = (results[i, j] * np.int32(255) + np.int32(1 << 13)) >> 14
                levels[start + j, i] = min(max(level, 0), 255)
    return levels
