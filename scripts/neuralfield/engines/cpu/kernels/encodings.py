"""Encodings of points, as in `fields`: the first layer's inputs."""

import math

import numpy as np
from numba.extending import register_jitable

from neuralfield.engines.cpu.kernels.functions import sine_and_cosine
from neuralfield.engines.cpu.kernels.grids import put_features
from neuralfield.engines.cpu.kernels.layout import FAN_IN, IN_LENGTH, VALUES
from neuralfield.engines.kernel_plan import ENCODINGS

_CORNERS, _FOURIER, _CHEBYSHEV = map(ENCODINGS.index, ("corners", "fourier", "chebyshev"))
_TWO_PI = np.float32(2 * math.pi)


@register_jitable
def encode(table, memory, points, count, encoding, corners):
    """Encode `count` points, shape (2, rows), as rows of the first layer's values.

    `encoding` is None if the points themselves are the values; other encodings are then not
    compiled. Otherwise it is a tuple: the encoding's number; width and height of the training image
    in pixels, for corners; frequencies of shape (2, F), for Fourier features with or without
    polynomials after them; levels and features of a hash grid, see `grids`. Arrays that an encoding
    does not use are empty. `corners` is work memory, see `grids.find_corners`; for `table` and
    `memory` see `layout`.
    """
    start, length = table[0, VALUES], table[0, IN_LENGTH]
    if encoding is None:
        for row in range(count):
            place = start + row * length
            memory[place], memory[place + 1] = points[0, row], points[1, row]
        return
    kind, width, height, frequencies, levels, features = encoding
    if kind == _CORNERS:
        longer = np.float32(max(width, height))
        for row in range(count):
            x, y, place = points[0, row], points[1, row], start + row * length
            memory[place] = 1
            across, down = x * longer + np.float32(width - 1), y * longer + np.float32(height - 1)
            memory[place + 1] = across / 2 / np.float32(max(width - 1, 1))
            memory[place + 2] = down / 2 / np.float32(max(height - 1, 1))
    elif kind in (_FOURIER, _CHEBYSHEV):
        across, down = frequencies[0], frequencies[1]
        angles = 2 * across.size
        for row in range(count):
            x, y, place = points[0, row], points[1, row], start + row * length
            _put_frequencies(x, y, across, down, memory[place : place + angles])
            if kind == _CHEBYSHEV:
                _put_polynomials(x, y, memory[place + angles : place + table[0, FAN_IN]])
    else:
        put_features(levels, features, points, count, memory, start, length, corners)


@register_jitable
def _put_frequencies(x, y, across, down, angles):
    count = across.size
    sines, cosines = angles[:count], angles[count:]
    for i in range(count):
        phase = _TWO_PI * (x * across[i] + y * down[i])
        sines[i], cosines[i] = sine_and_cosine(phase)


@register_jitable
def _put_polynomials(x, y, values):
    """Write the Chebyshev polynomials T_0, T_1, ... of x and of y, alternately."""
    two = np.float32(2)
    before_x, before_y = x, y  # T_-1 is T_1
    now_x = now_y = np.float32(1)
    for i in range(0, values.size, 2):
        values[i], values[i + 1] = now_x, now_y
        before_x, now_x = now_x, two * x * now_x - before_x
        before_y, now_y = now_y, two * y * now_y - before_y
