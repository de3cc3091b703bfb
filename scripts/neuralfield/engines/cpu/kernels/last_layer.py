"""The last layer: its outputs are too few for tiles, so that SIMD vectors run along its inputs."""

from numba.extending import register_jitable

from neuralfield.engines.cpu.kernels.layout import (
    ACTIVATION,
    FAN_IN,
    FAN_OUT,
    GRADIENT,
    GRADIENTS,
    IN_LENGTH,
    OUT_LENGTH,
    ROWS,
    TRANSPOSED,
    VALUES,
    WEIGHTS,
)
from neuralfield.engines.cpu.kernels.row_activations import (
    PRODUCT,
    gradients_before_rows,
    multiply,
)

_OPTIONS = {"fastmath": {"contract", "reassoc", "nsz"}, "error_model": "numpy"}


@register_jitable(**_OPTIONS)
def _dot(a, b):
    total = a[0] * b[0]
    for i in range(1, a.size):
        total += a[i] * b[i]
    return total


@register_jitable(**_OPTIONS)
def _add_multiple(factor, source, target):
    for i in range(source.size):
        target[i] += factor * source[i]


@register_jitable
def forward_last(table, rows, memory, factors):
    """Compute numbers before the output function, from the layer's VALUES into its GRADIENTS."""
    layer = len(table) - 1
    fan_in, fan_out = table[layer, FAN_IN], table[layer, FAN_OUT]
    value, place = table[layer, VALUES], table[layer, GRADIENTS]
    has_bias = table[layer, ROWS] > fan_in
    bias = table[layer, WEIGHTS] + fan_in * table[layer, OUT_LENGTH]
    for _ in range(rows):
        values = memory[value : value + fan_in]
        for channel in range(fan_out):
            start = table[layer, TRANSPOSED] + channel * table[layer, IN_LENGTH]
            total = _dot(values, factors[start : start + fan_in])
            memory[place + channel] = total + factors[bias + channel] if has_bias else total
        value += table[layer, IN_LENGTH]
        place += table[layer, OUT_LENGTH]


@register_jitable
def backward_last(network, rows, memory, gradient, add, narrowness):
    """Compute the gradients of the layer's parameters, and turn the GRADIENTS of the layer before
    into gradients of the loss; the layer's own GRADIENTS must be the loss's already."""
    table, factors, scratch = network.table, network.factors, network.scratch
    layer = len(table) - 1
    fan_in, fan_out, length = table[layer, FAN_IN], table[layer, FAN_OUT], table[layer, IN_LENGTH]
    summed = table[layer, ROWS]
    for place in range(scratch, scratch + (fan_out + 1) * length):
        memory[place] = 0
    value, place = table[layer, VALUES], table[layer, GRADIENTS]
    for _ in range(rows):
        values = memory[value : value + summed]
        for channel in range(fan_out):
            start = scratch + channel * length
            _add_multiple(memory[place + channel], values, memory[start : start + summed])
        value += length
        place += table[layer, OUT_LENGTH]
    for channel in range(fan_out):
        for row in range(summed):
            found = memory[scratch + channel * length + row]
            target = table[layer, GRADIENT] + row * table[layer, OUT_LENGTH] + channel
            gradient[target] = gradient[target] + found if add else found
    if layer == 0:
        return
    place, before = table[layer, GRADIENTS], table[layer - 1, GRADIENTS]
    start = scratch + fan_out * length
    by_value = memory[start : start + fan_in]
    for row in range(rows):
        for i in range(fan_in):
            by_value[i] = 0
        for channel in range(fan_out):
            start = table[layer, TRANSPOSED] + channel * length
            _add_multiple(memory[place + channel], factors[start : start + fan_in], by_value)
        if narrowness is not None and table[layer - 1, ACTIVATION] >= PRODUCT:
            gradients_before_rows(table, layer - 1, row, 1, memory, by_value, fan_in, narrowness)
        else:
            multiply(memory[before : before + fan_in], by_value)
        place += table[layer, OUT_LENGTH]
        before += table[layer - 1, OUT_LENGTH]
