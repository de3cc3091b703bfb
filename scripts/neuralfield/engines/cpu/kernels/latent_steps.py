"""Latents from parameters: rounding with noise, and its derivative; their gradient and update."""

import numpy as np
from numba.extending import register_jitable

from neuralfield.coding.context import FEATURES
from neuralfield.engines.cpu.kernels import entry_point
from neuralfield.engines.cpu.kernels.functions import tangent
from neuralfield.engines.cpu.kernels.latent_table import (
    AROUND,
    COLUMNS,
    FEATURE_START,
    LATENT_START,
    PARAMETER_START,
    STRIDE,
)
from neuralfield.engines.cpu.kernels.tiles import add

_HALF, _ONE = np.float32(0.5), np.float32(1)
_FAST = {"fastmath": {"contract"}, "error_model": "numpy"}


@entry_point
def round_rows(arrays, grid, first, end, scale, temperature, sigma, key):
    """Compute latents and their derivatives with respect to the parameters, for rows of a grid.

    The latents are those of `scale` times the parameters, rounded softly twice with noise of
    deviation `sigma` between; if `temperature` is 0, they are rounded, and derivatives are 0.
    """
    table = arrays.table
    columns, stride = table[grid, COLUMNS], table[grid, STRIDE]
    for y in range(first, end):
        place, target = table[grid, PARAMETER_START] + y * columns, table[grid, LATENT_START]
        row = arrays.latents[target + y * stride : target + y * stride + columns]
        given = arrays.parameters[place : place + columns]
        derivative = arrays.derivatives[place : place + columns]
        if temperature == 0:
            for i in range(columns):
                row[i] = min(max(np.float32(round(scale * given[i])), np.float32(-64)), 63)
            derivative[:] = 0
        else:
            _soft_row(given, scale, temperature, sigma, np.uint32(key), place, row, derivative)


@register_jitable(**_FAST)
def _soft_row(given, scale, temperature, sigma, key, place, row, derivative):
    """Compute a row of latents and derivatives, in loops that are short enough for vector code."""
    inverse = _ONE / temperature
    height = _HALF / tangent(_HALF * inverse)
    for i in range(given.size):
        derivative[i] = _tangent_of_rest(scale * given[i], inverse)
    for i in range(given.size):
        row[i] = np.floor(scale * given[i]) + _HALF + height * derivative[i]
        derivative[i] = scale * height * inverse * (_ONE - derivative[i] * derivative[i])
    for i in range(given.size):
        row[i] += sigma * _noise(np.uint32(place + i), key)
    for i in range(given.size):
        t = _tangent_of_rest(row[i], inverse)
        row[i] = np.floor(row[i]) + _HALF + height * t
        derivative[i] *= height * inverse * (_ONE - t * t)


@register_jitable(**_FAST)
def _tangent_of_rest(x, inverse):
    """Return tanh((x - m) / temperature), where m is the middle between two whole numbers.

    Soft rounding is m + tanh(...) / (2 tanh(1 / (2 temperature))) (Agustsson & Theis 2020,
    equation 7).
    """
    return tangent((x - (np.floor(x) + _HALF)) * inverse)


@register_jitable
def _noise(index, key):
    """Return the sum of the four bytes of a hash, of mean 0 and variance 1: about Gaussian."""
    word = np.uint32(np.uint32(index * np.uint32(0x9E3779B1)) + key)
    word = np.uint32((word ^ (word >> np.uint32(16))) * np.uint32(0x7FEB352D))
    word = np.uint32((word ^ (word >> np.uint32(15))) * np.uint32(0x846CA68B))
    word = word ^ (word >> np.uint32(16))
    low, high = word & np.uint32(0x00FF00FF), (word >> np.uint32(8)) & np.uint32(0x00FF00FF)
    pairs = low + high
    total = (pairs & np.uint32(0xFFFF)) + (pairs >> np.uint32(16))
    return np.float32(np.int32(total) - np.int32(510)) * np.float32(1 / 147.80166)


@entry_point
def add_gradients(arrays, grid, first, end):
    """Add up the gradients for the latents of rows of a grid, and make them those for parameters.

    `gradient` is that of the squared error, without that for sums of surroundings.
    """
    table, own_gradients = arrays.table, arrays.own_gradients
    columns, stride = table[grid, COLUMNS], table[grid, STRIDE]
    if grid == 0:
        _add_surroundings(arrays.around_gradients, first, end, arrays.gradient)
    for y in range(first, end):
        place = table[grid, PARAMETER_START] + y * columns
        total = arrays.gradient[place : place + columns]
        start = table[grid, LATENT_START] + y * stride
        add(own_gradients[0, start : start + columns], total)
        add(own_gradients[1, start : start + columns], total)
        for up in range(1, min(FEATURES, grid) + 1):
            start = table[grid - up, FEATURE_START + up] + y * columns
            add(arrays.feature_gradients[start : start + columns], total)
        derivative = arrays.derivatives[place : place + columns]
        for i in range(columns):
            total[i] *= derivative[i]


@register_jitable
def _add_surroundings(around_gradient, first, end, grid_gradient):
    """Add the gradients of sums of surroundings to those for rows of grid 0; see `pixel_band`."""
    _, rows, columns = around_gradient.shape
    for y in range(first, end):
        total = grid_gradient[y * columns : (y + 1) * columns]
        for i in range(len(AROUND)):
            number, down, across = AROUND[i]
            # the rows at the ends are also those outside
            above = min(down, 0) if y == 0 else 0
            below = max(down, 0) if y == rows - 1 else 0
            for row in range(y + above - down, y + below - down + 1):
                if 0 <= row < rows:
                    _add_shifted_back(around_gradient[number, row], across, total)


@register_jitable(**_FAST)
def _add_shifted_back(source, across, target):
    """Add to a row what was read from it, shifted, where places outside are those of its ends."""
    last = target.size - 1
    for x in range(max(0, across), min(last, last + across) + 1):
        target[x] += source[x - across]
    for x in range(min(-across, source.size)):
        target[0] += source[x]
    for x in range(max(0, source.size - across), source.size if across > 0 else 0):
        target[last] += source[x]


@entry_point
def add_rows(gradients):
    """Add all rows of an array to the first, in order."""
    total = gradients[0]
    for row in range(1, len(gradients)):
        add(gradients[row], total)
