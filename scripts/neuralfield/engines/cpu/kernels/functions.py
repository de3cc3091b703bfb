"""Sine, exponential function and tangent in float32, and the activations made of them.

Written so that a compiler makes vector code of a loop over them. Errors are a few units in the last
place for arguments up to 100,000; NaN stays NaN.
"""

import numpy as np
from numba.extending import register_jitable

from neuralfield.nn.layers import KERNEL_ACTIVATIONS

_OPTIONS = {"fastmath": {"contract"}, "error_model": "numpy"}

_TO_INTEGER = np.float32(12582912.0)
"""1.5 * 2 ** 23: adding it rounds a number to an integer, which is in the sum's lowest bits."""
_TWO_BY_PI = np.float32(2 / np.pi)
_HALF_PI_1 = np.float32(1.5703125)
_HALF_PI_2 = np.float32(4.837512969970703e-4)
_HALF_PI_3 = np.float32(7.549533620476723e-8)
_HALF_PI_4 = np.float32(2.563344151594519e-12)
"""Pi / 2 in parts of few bits, so that their products with whole numbers are exact."""
_LARGEST = np.float32(0.8)
"""A little more than pi / 4: a reduced argument is larger only if the argument was huge."""

_LOG2_E = np.float32(1.4426950408889634)
_LN_2_1, _LN_2_2 = np.float32(0.693359375), np.float32(-2.12194440e-4)
_MOST_EXPONENT = np.float32(87.0)
LEAST_EXPONENT = np.float32(-40.0)
"""Exponent of a Gaussian at and below which its value is set to 0; as in `ops.gaussian`."""


@register_jitable(**_OPTIONS)
def sine_and_cosine(x):
    """Compute the sine and the cosine, which share the reduction to [-pi / 4, pi / 4], as in
    Cephes."""
    shifted = x * _TWO_BY_PI + _TO_INTEGER
    quadrant = np.float32(shifted).view(np.int32)
    k = shifted - _TO_INTEGER
    r = x - k * _HALF_PI_1
    r = r - k * _HALF_PI_2
    r = r - k * _HALF_PI_3
    r = r - k * _HALF_PI_4
    r = _LARGEST if r > _LARGEST else r
    r = -_LARGEST if r < -_LARGEST else r
    s = r * r
    sine = np.float32(-1.9515295891e-4) * s + np.float32(8.3321608736e-3)
    sine = sine * s + np.float32(-1.6666654611e-1)
    sine = sine * s * r + r
    cosine = np.float32(2.443315711809948e-5) * s + np.float32(-1.388731625493765e-3)
    cosine = cosine * s + np.float32(4.166664568298827e-2)
    cosine = cosine * s * s + (np.float32(1) - np.float32(0.5) * s)
    odd = quadrant & 1
    first, second = (cosine, sine) if odd else (sine, cosine)
    first = -first if quadrant & 2 else first
    second = -second if (quadrant + 1) & 2 else second
    return first, second


@register_jitable(**_OPTIONS)
def exponential(x):
    """Compute e ** x for x clipped to [-87, 87]."""
    x = _MOST_EXPONENT if x > _MOST_EXPONENT else x
    x = -_MOST_EXPONENT if x < -_MOST_EXPONENT else x
    shifted = x * _LOG2_E + _TO_INTEGER
    k = shifted - _TO_INTEGER
    r = x - k * _LN_2_1
    r = r - k * _LN_2_2
    y = np.float32(1.9875691500e-4) * r + np.float32(1.3981999507e-3)
    y = y * r + np.float32(8.3334519073e-3)
    y = y * r + np.float32(4.1665795894e-2)
    y = y * r + np.float32(1.6666665459e-1)
    y = y * r + np.float32(5.0000001201e-1)
    y = y * r * r + r + np.float32(1)
    power = (np.float32(shifted).view(np.int32) << 23) + (127 << 23)
    return y * np.int32(power).view(np.float32)


@register_jitable(**_OPTIONS)
def tangent(x):
    """Compute the hyperbolic tangent: near zero by Cephes' polynomial, else by `exponential`."""
    size = -x if x < 0 else x
    s = x * x
    near = np.float32(-5.70498872745e-3) * s + np.float32(2.06390887954e-2)
    near = near * s + np.float32(-5.37397155531e-2)
    near = near * s + np.float32(1.33314422036e-1)
    near = near * s + np.float32(-3.33332819422e-1)
    near = near * s * x + x
    far = np.float32(1) - np.float32(2) / (exponential(size + size) + np.float32(1))
    far = -far if x < 0 else far
    return near if size < np.float32(0.625) else far


@register_jitable(**_OPTIONS)
def _sine(x, frequency):
    return sine_and_cosine(x)


@register_jitable(**_OPTIONS)
def _tanh(x, frequency):
    value = tangent(x)
    return value, np.float32(1) - value * value


@register_jitable(**_OPTIONS)
def _relu(x, frequency):
    # NaN stays NaN
    return (np.float32(0), np.float32(0)) if x <= 0 else (x, np.float32(1))


@register_jitable(**_OPTIONS)
def _sigmoid(x, frequency):
    value = np.float32(0.5) + np.float32(0.5) * tangent(np.float32(0.5) * x)
    return value, value * (np.float32(1) - value)


@register_jitable(**_OPTIONS)
def _variable_sine(x, frequency):
    z = x * (np.float32(1) / frequency)
    size = -z if z < 0 else z
    sine, cosine = sine_and_cosine(x * (size + np.float32(1)))
    return sine, cosine * (size + size + np.float32(1))


@register_jitable(**_OPTIONS)
def _gaussian(x, frequency):
    exponent = -(x * x)
    # 0 in place of tiny numbers, with which products are slow on CPUs; NaN stays NaN
    value = np.float32(0) if exponent <= LEAST_EXPONENT else exponential(exponent)
    return value, np.float32(-2) * x * value


ACTIVATIONS = {
    "sine": _sine,
    "tanh": _tanh,
    "relu": _relu,
    "sigmoid": _sigmoid,
    "variable sine": _variable_sine,
    "gaussian": _gaussian,
}
"""Functions (x, frequency) -> (activation, its derivative with respect to x), where x is already
multiplied by the frequency. For other activations see `row_activations`."""

_SINE, _TANH, _RELU, _SIGMOID, _VARIABLE_SINE, _ = map(KERNEL_ACTIVATIONS.index, ACTIVATIONS)


def _row_loop(function):
    """Make a loop over a row of arguments, which the derivatives overwrite."""

    def over_row(argument, value, frequency):
        for i in range(argument.size):
            value[i], argument[i] = function(argument[i], frequency)

    # Numba identifies compiled code by its name and a number that starts anew in each process. If
    # two loops had the same name, code cached by another process could be used for the wrong loop.
    over_row.__qualname__ = over_row.__name__ = f"{function.__name__}_over_row"
    return register_jitable(**_OPTIONS)(over_row)


_ROW_LOOPS = [_row_loop(function) for function in ACTIVATIONS.values()]
_sine_row, _tanh_row, _relu_row, _sigmoid_row, _variable_sine_row, _gaussian_row = _ROW_LOOPS


@register_jitable(**_OPTIONS)
def activate(kind, frequency, argument, value, others):
    """Compute an activation of a row of arguments, which its derivatives overwrite.

    If `others` is None, only sines are compiled.
    """
    if others is None or kind == _SINE:
        _sine_row(argument, value, frequency)
    elif kind == _TANH:
        _tanh_row(argument, value, frequency)
    elif kind == _RELU:
        _relu_row(argument, value, frequency)
    elif kind == _SIGMOID:
        _sigmoid_row(argument, value, frequency)
    elif kind == _VARIABLE_SINE:
        _variable_sine_row(argument, value, frequency)
    else:
        _gaussian_row(argument, value, frequency)
