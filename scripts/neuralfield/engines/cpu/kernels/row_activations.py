"""Activations that combine the numbers of a row: products of parts of it, and complex wavelets."""

import numpy as np
from numba.extending import register_jitable

from neuralfield.engines.cpu.kernels.functions import LEAST_EXPONENT, exponential, sine_and_cosine
from neuralfield.engines.cpu.kernels.layout import (
    ACTIVATION,
    FACTORS,
    FAN_OUT,
    GRADIENTS,
    IN_LENGTH,
    OUT_LENGTH,
    VALUES,
)
from neuralfield.nn.layers import KERNEL_ACTIVATIONS

PRODUCT = KERNEL_ACTIVATIONS.index("product")
"""Number of the first of the activations that combine the numbers of a row."""

_OPTIONS = {"fastmath": {"contract"}, "error_model": "numpy"}


@register_jitable
def activate_rows(table, layer, first, count, memory, narrowness):
    """Compute the activation of rows of a layer's GRADIENTS, into the next layer's VALUES.

    Derivatives of products overwrite the arguments. Arguments of wavelets stay, because derivatives
    are computed from them and the values. `narrowness` of wavelets is (scale / frequency) ** 2; it
    is 0 for products.
    """
    size, factors = table[layer, FAN_OUT], table[layer, FACTORS]
    kept, behind = np.empty(size, np.float32), np.empty(size // factors, np.float32)
    for row in range(first, first + count):
        place = table[layer, GRADIENTS] + row * table[layer, OUT_LENGTH]
        argument = memory[place : place + size]
        place = table[layer + 1, VALUES] + row * table[layer + 1, IN_LENGTH]
        value = memory[place : place + size // factors]
        if table[layer, ACTIVATION] == PRODUCT:
            _multiply_parts(argument, value, factors, kept, behind)
        else:
            _wavelets(argument, value, narrowness)


@register_jitable
def gradients_before_rows(table, layer, first, count, memory, found, length, narrowness):
    """Replace a layer's GRADIENTS by gradients with respect to its activation's arguments.

    `found` has the gradients with respect to the activation's values, in rows of `length` numbers.
    """
    size = table[layer, FAN_OUT]
    part = size // table[layer, FACTORS]
    for index in range(count):
        place = table[layer, GRADIENTS] + (first + index) * table[layer, OUT_LENGTH]
        gradient = found[index * length : index * length + part]
        if table[layer, ACTIVATION] == PRODUCT:
            for start in range(place, place + size, part):
                multiply(memory[start : start + part], gradient)
        else:
            argument = memory[place : place + size]
            place = table[layer + 1, VALUES] + (first + index) * table[layer + 1, IN_LENGTH]
            value = memory[place : place + size]
            _gradients_before_wavelets(argument, value, gradient, narrowness)


@register_jitable
def multiply(target, source):
    """Multiply element by element, in place."""
    for i in range(target.size):
        target[i] *= source[i]


@register_jitable
def _multiply_parts(argument, value, factors, kept, behind):
    """Multiply equal parts with each other, and replace each part by the product of the others.

    `kept` and `behind` are work memory: the first has the size of all parts, the second of one.
    """
    part = value.size
    kept[:] = argument
    value[:], argument[:part] = argument[:part], 1
    for start in range(part, factors * part, part):
        argument[start : start + part] = value
        multiply(value, kept[start : start + part])
    behind[:] = 1
    for start in range((factors - 1) * part, -1, -part):
        multiply(argument[start : start + part], behind)
        multiply(behind, kept[start : start + part])


@register_jitable(**_OPTIONS)
def _wavelets(argument, value, narrowness):
    """Compute exp(i z - narrowness |z| ** 2) of z = a + i b; rows have imaginary parts last."""
    half = argument.size // 2
    a, b, real, imaginary = argument[:half], argument[half:], value[:half], value[half:]
    for i in range(a.size):
        exponent = -narrowness * (a[i] * a[i] + b[i] * b[i]) - b[i]
        # 0 in place of tiny numbers, with which products are slow on CPUs; NaN stays NaN
        size = np.float32(0) if exponent <= LEAST_EXPONENT else exponential(exponent)
        sine, cosine = sine_and_cosine(a[i])
        real[i], imaginary[i] = size * cosine, size * sine


@register_jitable(**_OPTIONS)
def _gradients_before_wavelets(argument, value, gradient, narrowness):
    """Replace arguments by gradients with respect to them; rows have imaginary parts last."""
    half = argument.size // 2
    a, b, real, imaginary = argument[:half], argument[half:], value[:half], value[half:]
    by_real, by_imaginary = gradient[:half], gradient[half:]
    steepness = np.float32(-2) * narrowness
    for i in range(a.size):
        # with respect to the logarithm of the wavelet's size, and to its phase
        along = by_real[i] * real[i] + by_imaginary[i] * imaginary[i]
        across = by_imaginary[i] * real[i] - by_real[i] * imaginary[i]
        a[i], b[i] = steepness * a[i] * along + across, (steepness * b[i] - np.float32(1)) * along
