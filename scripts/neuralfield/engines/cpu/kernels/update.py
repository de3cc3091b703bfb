"""Updates as in `nn.optimizers`, of a part of a layer or of an encoding at a time."""

import math

import numpy as np
from numba.extending import register_jitable

from neuralfield.engines.cpu.kernels import entry_point
from neuralfield.engines.cpu.kernels.layers import pack_rows
from neuralfield.engines.cpu.kernels.layout import (
    BIASES,
    COLUMNS,
    FAN_IN,
    GRADIENT,
    OUT_LENGTH,
    PARAMETERS,
)


@entry_point
def update_rows(
    table,
    layer,
    frequency,
    first,
    end,
    scale,
    gradients,
    moment1,
    moment2,
    skipped,
    parameters,
    factors,
    numbers,
):
    """Add up the shards' gradients of some rows of a layer, in order, and update the parameters.

    `gradients` has shape (shards, numbers), and the first shard's is work memory; the sum is
    multiplied by `scale`. The moments are Adam's, or empty; for gradient descent with momentum,
    `moment1` is the velocity. `moment2` has no numbers for `skipped` parameters before these rows.
    `factors` are updated too. `numbers` is, for Adam: rate, beta 1, 1 - beta 1, beta 2, 1 - beta 2,
    1 / correction 2, epsilon; for gradient descent: rate, momentum. For `table` see `layout`.
    """
    for row in range(first, end):
        total = _sum_of_row(table, layer, row, gradients)
        start = table[layer, PARAMETERS] + row * table[layer, COLUMNS]
        place = slice(start, start + total.size)
        second = moment2[start - skipped : start - skipped + total.size]
        _move(scale, total, moment1[place], second, parameters[place], numbers)
    pack_rows(table, layer, frequency, first, end, parameters, factors)


@entry_point
def update_numbers(scale, gradient, moment1, moment2, parameters, numbers):
    """Update parameters whose gradient is complete; for moments and numbers see `update_rows`."""
    _move(scale, gradient, moment1, moment2, parameters, numbers)


@entry_point
def add_rows(table, layer, first, end, gradients):
    """Add the gradients of some rows of a layer to the first shard's; return the sum of squares."""
    squares = 0.0
    for row in range(first, end):
        squares += _squares(_sum_of_row(table, layer, row, gradients))
    return squares


@entry_point
def sum_of_squares(gradient):
    """Return the sum of squares of a complete gradient."""
    return _squares(gradient)


@register_jitable
def _sum_of_row(table, layer, row, gradients):
    """Add the other shards' gradients of a row to the first shard's, and return the sum."""
    start = table[layer, GRADIENT] + row * table[layer, OUT_LENGTH]
    end = start + table[layer, COLUMNS if row < table[layer, FAN_IN] else BIASES]
    total = gradients[0, start:end]
    for shard in range(1, len(gradients)):
        part = gradients[shard, start:end]
        for i in range(total.size):
            total[i] += part[i]
    return total


@register_jitable
def _squares(numbers):
    total = 0.0
    for number in numbers:
        total += float(number) ** 2
    return total


@register_jitable
def _move(scale, gradient, moment1, moment2, parameters, numbers):
    if len(moment2):
        _adam(scale, gradient, moment1, moment2, parameters, numbers)
    elif len(moment1):
        _momentum(scale, gradient, moment1, parameters, numbers)
    else:
        for i in range(gradient.size):
            parameters[i] -= numbers[0] * (scale * gradient[i])


@register_jitable
def _adam(scale, gradient, moment1, moment2, parameters, numbers):
    rate, keep1, take1, keep2, take2, correction, epsilon = numbers
    for i in range(gradient.size):
        scaled = scale * gradient[i]
        first = keep1 * moment1[i] + take1 * scaled
        second = keep2 * moment2[i] + take2 * scaled * scaled
        moment1[i], moment2[i] = first, second
        parameters[i] -= rate * first / (np.float32(math.sqrt(second)) * correction + epsilon)


@register_jitable
def _momentum(scale, gradient, velocity, parameters, numbers):
    for i in range(gradient.size):
        velocity[i] = numbers[1] * velocity[i] + scale * gradient[i]
        parameters[i] -= numbers[0] * velocity[i]
