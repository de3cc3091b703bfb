"""Encodings of points, as in `fields`: the first layer's inputs."""

import math

import numpy as np

from neuralfield.engines.cpu.kernels.functions import sine_and_cosine
from neuralfield.engines.cpu.kernels.grids import put_features
from neuralfield.engines.cpu.kernels.layout import FAN_IN, IN_LENGTH, VALUES
from neuralfield.engines.cpu.kernels.parts import kernel_part
from neuralfield.engines.plan import ENCODINGS

_CORNERS, _FOURIER = (ENCODINGS.index(name) for name in ("corners", "fourier"))
_TWO_PI = np.float32(2 * math.pi)


@kernel_part
def encode(table, memory, points, count, encoding, corners):
    """Encode `count` points, shape (2, rows), as rows of the first layer's values.

    `encoding` is None where points themselves are the values, for which nothing else is compiled.
    Otherwise it is its number; sides of the training image in pixels, for corners; frequencies of
    shape (2, F), for Fourier features; levels and features of a hash grid, see `grids`. Arrays are
    empty where they have no meaning. `corners` is work memory, see `grids.find_corners`; for
    `table` and `memory` see `layout`.
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
    elif kind == _FOURIER:
        for row in range(count):
            place = start + row * length
            angles = memory[place : place + table[0, FAN_IN]]
            _put_frequencies(points[0, row], points[1, row], frequencies[0], frequencies[1], angles)
    else:
        put_features(levels, features, points, count, memory, start, length, corners)


@kernel_part
def _put_frequencies(x, y, across, down, angles):
    count = across.size
    sines, cosines = angles[:count], angles[count:]
    for i in range(count):
        phase = _TWO_PI * (x * across[i] + y * down[i])
        sines[i], cosines[i] = sine_and_cosine(phase)
