"""The rate model of latents: bits and gradients of a band of a grid, in pieces of a row."""

import math
from itertools import accumulate

import numpy as np
from numba.extending import register_jitable

from neuralfield.coding.context import FEATURES, INPUTS, NEIGHBOURS
from neuralfield.engines.cpu.kernels import entry_point
from neuralfield.engines.cpu.kernels.functions import exponential
from neuralfield.engines.cpu.kernels.latent_table import (
    BAND_ROWS,
    COLUMNS,
    FEATURE_START,
    LATENT_START,
    PIECE,
    ROWS,
    STRIDE,
)
from neuralfield.engines.cpu.kernels.tiles import (
    VECTOR,
    add,
    add_rows_multiplied,
    multiply,
    sum_vectors,
)

_WITH_ONES, _NEAR = INPUTS + 1, len(NEIGHBOURS)
_H1, _H2, _Z1, _Z2, _GRADIENT, _OUT = accumulate([_WITH_ONES] * 3 + [INPUTS] * 3)
_LINES = _OUT + 5
"""Where arrays of pieces begin in a thread's work memory, and the number of their rows."""

_OFFSETS = np.array(NEIGHBOURS)
_REACH = -int(_OFFSETS[:, 0].min())
RATE_WORK = _LINES * PIECE + (2 * INPUTS + 2) * _WITH_ONES * VECTOR
"""Numbers of a thread's work memory: arrays of pieces, and sums in vectors."""

_WRITE, _ADD = np.int64(0), np.int64(1)
_LN_2, _BITS_PER_NAT = np.float32(math.log(2)), np.float32(1 / math.log(2))
_FLOOR = np.float32(2**-16)
_LEAST_SCALE, _LARGEST_SCALE = np.float32(-6), np.float32(7)
_HALF, _ONE, _ZERO = np.float32(0.5), np.float32(1), np.float32(0)
_FAST = {"fastmath": {"contract"}, "error_model": "numpy"}


@entry_point
def rate_band(arrays, grid, band, scale, is_for_latents, network_gradient, work):
    """Return the bits of a band of a grid, and compute the gradient of `scale` times the bits.

    The gradient for the band's own grid is written to rows of `own_gradients` from as many rows
    above the band as neighbours reach, those for coarser grids to `feature_gradients` (unless
    `is_for_latents` is false), and that for the rate model's weights to `network_gradient`.
    """
    table, latents, weights = arrays.table, arrays.latents, arrays.rate
    own_gradient, feature_gradient = arrays.own_gradients[band & 1], arrays.feature_gradients
    rows, columns, stride = table[grid, ROWS], table[grid, COLUMNS], table[grid, STRIDE]
    start, grids = table[grid, LATENT_START], len(table)
    first, end = band * BAND_ROWS, min(rows, (band + 1) * BAND_ROWS)
    lines = work[: _LINES * PIECE].reshape(_LINES, PIECE)
    x, h1, h2, gradient = lines[:_H1], lines[_H1:_H2], lines[_H2:_Z1], lines[_GRADIENT:_OUT]
    z1, z2, out = lines[_Z1:_Z2], lines[_Z2:_GRADIENT], lines[_OUT : _OUT + 2]
    out_gradient, latent_gradient = lines[_OUT + 2 : _OUT + 4], lines[_OUT + 4]
    w1, w2, w3 = weights[:INPUTS], weights[INPUTS : 2 * INPUTS], weights[2 * INPUTS :]
    sums = work[_LINES * PIECE :][: weights.size * VECTOR].reshape(weights.size, VECTOR)
    s1, s2, s3 = sums, sums[w1.size :], sums[2 * w1.size :]
    sums[:] = 0
    for array in (x, h1, h2):
        array[INPUTS] = 1
    if is_for_latents:
        own_gradient[start + (first - _REACH) * stride - 4 : start + end * stride - 4] = 0
        for up in range(1, FEATURES + 1):
            if grid + up < grids:
                coarse = table[grid, FEATURE_START + up]
                wide = table[grid + up, COLUMNS]
                last = ((end - 1) >> up) + 1
                feature_gradient[coarse + (first >> up) * wide : coarse + last * wide] = 0
    bits = 0.0
    for y in range(first, end):
        for left in range(0, columns, PIECE):
            count = min(PIECE, columns - left)
            padded = np.int64((count + VECTOR - 1) // VECTOR * VECTOR)
            here = start + y * stride + left
            # else numbers of earlier work, which may be NaN, times gradients of 0 would be added
            x[:INPUTS, count:padded] = 0
            for i in range(_NEAR):
                there = here + _OFFSETS[i, 0] * stride + _OFFSETS[i, 1]
                x[i, :count] = latents[there : there + count]
            for up in range(1, FEATURES + 1):
                target = x[_NEAR + up - 1]
                if grid + up < grids:
                    coarse = table[grid + up, LATENT_START] + (y >> up) * table[grid + up, STRIDE]
                    _repeat(latents, coarse + (left >> up), up, target, count)
                else:
                    target[:] = 0
            multiply(w1, x, z1, padded, _WRITE)
            _add_positive(z1, x, h1, padded)
            multiply(w2, h1, z2, padded, _WRITE)
            _add_positive(z2, h1, h2, padded)
            multiply(w3, h2, out, padded, _WRITE)
            own = latents[here : here + count]
            bits += _laplace(own, out, scale, out_gradient, latent_gradient)
            out_gradient[:, count:] = 0
            add_rows_multiplied(out_gradient, h2, s3, padded)
            multiply(w3[:, :INPUTS].T, out_gradient, gradient, padded, _WRITE)
            _mask(gradient, z2, padded)
            add_rows_multiplied(z2, h1, s2, padded)
            multiply(w2[:, :INPUTS].T, z2, gradient, padded, _ADD)
            _mask(gradient, z1, padded)
            add_rows_multiplied(z1, x, s1, padded)
            if not is_for_latents:
                continue
            multiply(w1[:, :INPUTS].T, z1, gradient, padded, _ADD)
            add(latent_gradient[:count], own_gradient[here : here + count])
            for i in range(_NEAR):
                there = here + _OFFSETS[i, 0] * stride + _OFFSETS[i, 1]
                add(gradient[i, :count], own_gradient[there : there + count])
            for up in range(1, FEATURES + 1):
                if grid + up < grids:
                    wide = table[grid + up, COLUMNS]
                    there = table[grid, FEATURE_START + up] + (y >> up) * wide + (left >> up)
                    _add_groups(gradient[_NEAR + up - 1], up, feature_gradient, there, count)
    sum_vectors(sums, network_gradient)
    return bits


@register_jitable
def _repeat(source, start, up, target, count):
    """Fill a row with every number of a coarser row 2 ** `up` times."""
    part = source[start : start + (count - 1 >> up) + 1]
    for j in range(count):
        target[j] = part[j >> up]


@register_jitable
def _add_groups(source, up, target, start, count):
    """Add the sums of 2 ** `up` numbers each to the numbers of a coarser row."""
    whole = count >> up
    part = target[start : start + whole + 1]
    if up == 2:
        for i in range(whole):
            left, right = source[4 * i] + source[4 * i + 1], source[4 * i + 2] + source[4 * i + 3]
            part[i] += left + right
    else:
        for i in range(whole):
            total = _ZERO
            for j in range(i << up, (i + 1) << up):
                total += source[j]
            part[i] += total
    for j in range(whole << up, count):
        part[whole] += source[j]


@register_jitable(**_FAST)
def _add_positive(z, x, h, count):
    """Compute h = relu(z) + x."""
    for i in range(len(z)):
        of_z, of_x, of_h = z[i], x[i], h[i]
        for j in range(count):
            of_h[j] = (of_z[j] if of_z[j] > 0 else _ZERO) + of_x[j]


@register_jitable(**_FAST)
def _mask(gradient, z, count):
    """Replace z by the gradient where z is positive, and by 0 elsewhere."""
    for i in range(len(z)):
        of_z, of_gradient = z[i], gradient[i]
        for j in range(count):
            of_z[j] = of_gradient[j] if of_z[j] > 0 else _ZERO


@register_jitable(**_FAST)
def _logarithm(x):
    """Compute the binary logarithm of a positive number, with an error of about 1e-5."""
    word = np.float32(x).view(np.int32)
    exponent = np.float32((word >> 23) - 127)
    mantissa = np.int32((word & 0x7FFFFF) | 0x3F800000).view(np.float32)
    t = (mantissa - np.float32(1.41421356)) / (mantissa + np.float32(1.41421356))
    s = t * t
    series = np.float32(2 / 7) * s + np.float32(2 / 5)
    series = series * s + np.float32(2 / 3)
    series = series * s + np.float32(2)
    return exponent + _HALF + t * series * _BITS_PER_NAT


@register_jitable(**_FAST)
def _laplace(own, out, scale, out_gradient, latent_gradient):
    """Compute the bits of latents, and the gradient of `scale` times the bits."""
    mean, log_scale = out[0], out[1]
    mean_gradient, scale_gradient = out_gradient[0], out_gradient[1]
    for i in range(own.size):
        s = log_scale[i]
        is_inside = s > _LEAST_SCALE and s < _LARGEST_SCALE
        s = min(max(s, _LEAST_SCALE), _LARGEST_SCALE)
        decay = exponential(-s * _LN_2) * _LN_2
        distance = own[i] - mean[i]
        size = abs(distance)
        over = size - _HALF
        near = exponential(-abs(over) * decay)
        far = exponential(-(size + _HALF) * decay)
        share = _HALF * (near - far)
        share = share if over >= 0 else _ONE - _HALF * (near + far)
        by_size = -_HALF * decay * (near - far)
        by_decay = _HALF * ((size + _HALF) * far - over * near)
        by_share = -scale * _BITS_PER_NAT / (share + _FLOOR)
        to_latent = by_share * by_size
        to_latent = to_latent if distance >= 0 else -to_latent
        latent_gradient[i] = to_latent
        mean_gradient[i] = -to_latent
        scale_gradient[i] = -by_share * by_decay * decay * _LN_2 if is_inside else _ZERO
        share_or_floor = share + _FLOOR
        log_scale[i] = _logarithm(share_or_floor)
    bits = 0.0
    for i in range(own.size):
        bits -= log_scale[i]
    return bits
