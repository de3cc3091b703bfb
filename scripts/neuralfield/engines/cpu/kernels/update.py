"""Updates as in `nn.optimizers`, a part of a layer or of an encoding at a time."""

import math

import numpy as np

from neuralfield.engines.cpu.kernels import entry_point
from neuralfield.engines.cpu.kernels.layers import pack_rows
from neuralfield.engines.cpu.kernels.layout import FAN_OUT, GRADIENT, OUT_LENGTH, PARAMETERS
from neuralfield.engines.cpu.kernels.parts import kernel_part


@entry_point
def update_rows(
    table, layer, frequency, first, end, gradients, moment1, moment2, parameters, factors, numbers
):
    """Add up the shards' gradients of some rows of a layer, in order, and move the parameters.

    `gradients` has shape (shards, numbers), and the first shard's is work memory. The moments are
    Adam's, or empty; of gradient descent with momentum, `moment1` is the velocity. `factors` are
    brought up to date. `numbers` is, for Adam: rate, beta 1, 1 - beta 1, beta 2, 1 - beta 2, 1 /
    correction 2, epsilon; for gradient descent: rate, momentum. For `table` see `layout`.
    """
    fan_out = table[layer, FAN_OUT]
    for row in range(first, end):
        start = table[layer, GRADIENT] + row * table[layer, OUT_LENGTH]
        total = gradients[0, start : start + fan_out]
        for shard in range(1, len(gradients)):
            part = gradients[shard, start : start + fan_out]
            for i in range(fan_out):
                total[i] += part[i]
        start = table[layer, PARAMETERS] + row * fan_out
        place = slice(start, start + fan_out)
        moments = moment1[place], moment2[place]
        _move(frequency, total, *moments, parameters[place], numbers)
    pack_rows(table, layer, frequency, first, end, parameters, factors)


@entry_point
def update_numbers(gradient, moment1, moment2, parameters, numbers):
    """Move parameters whose gradient is complete; for moments and numbers see `update_rows`."""
    _move(np.float32(1), gradient, moment1, moment2, parameters, numbers)


@kernel_part
def _move(frequency, gradient, moment1, moment2, parameters, numbers):
    if len(moment2):
        _adam(frequency, gradient, moment1, moment2, parameters, numbers)
    elif len(moment1):
        _momentum(frequency, gradient, moment1, parameters, numbers)
    else:
        for i in range(gradient.size):
            parameters[i] -= numbers[0] * (frequency * gradient[i])


@kernel_part
def _adam(frequency, gradient, moment1, moment2, parameters, numbers):
    rate, keep1, take1, keep2, take2, correction, epsilon = numbers
    for i in range(gradient.size):
        scaled = frequency * gradient[i]
        first = keep1 * moment1[i] + take1 * scaled
        second = keep2 * moment2[i] + take2 * scaled * scaled
        moment1[i], moment2[i] = first, second
        parameters[i] -= rate * first / (np.float32(math.sqrt(second)) * correction + epsilon)


@kernel_part
def _momentum(frequency, gradient, velocity, parameters, numbers):
    for i in range(gradient.size):
        velocity[i] = numbers[1] * velocity[i] + frequency * gradient[i]
        parameters[i] -= numbers[0] * velocity[i]
