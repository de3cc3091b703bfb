"""The rate model of latents: bits and gradients of a band of a grid, in pieces of a row."""

import math

import numpy as np
from numba.extending import register_jitable

from neuralfield.engines.cpu.kernels import entry_point
from neuralfield.engines.cpu.kernels.functions import exponential
from neuralfield.engines.cpu.kernels.latent_table import (
    BAND_ROWS,
    COLUMNS,
    FEATURE_START,
    LATENT_START,
    ROWS,
    STRIDE,
)
from neuralfield.engines.cpu.kernels.tiles import VECTOR, add_row_products, product

PIECE = 64
"""Number of latents that are evaluated together; their arrays fit into a core's first cache."""

_WRITE, _ADD, _STEP, _ROW = np.int64(0), np.int64(1), np.int64(4), np.int64(4 * PIECE)
_LN_2, _BITS_PER_NAT = np.float32(math.log(2)), np.float32(1 / math.log(2))
_FLOOR = np.float32(2**-16)
_LEAST_SCALE, _LARGEST_SCALE = np.float32(-6), np.float32(7)
_HALF, _ONE, _ZERO = np.float32(0.5), np.float32(1), np.float32(0)
_FAST = {"fastmath": {"contract"}, "error_model": "numpy"}


def rate_work_numbers(inputs: int) -> int:
    """Count the numbers of a thread's work memory: arrays of pieces, and sums in vectors."""
    rows = inputs + 1
    return (3 * rows + 3 * inputs + 5) * PIECE + (2 * inputs + 2) * rows * VECTOR


@entry_point
def rate_band(
    table,
    neighbours,
    grid,
    band,
    latents,
    weights,
    scale,
    is_for_latents,
    own_gradient,
    feature_gradient,
    network_gradient,
    work,
):
    """Return the bits of a band of a grid, and compute the gradient of `scale` times the bits.

    The gradient for the band's own grid is written to rows of `own_gradient` from as many rows
    above the band as neighbours reach, those for coarser grids to `feature_gradient` (unless
    `is_for_latents` is false), and that for `weights`, all three matrices one after another, to
    `network_gradient`. See `latent_table` for the layout of arrays.
    """
    rows, columns, stride = table[grid, ROWS], table[grid, COLUMNS], table[grid, STRIDE]
    start, grids, near = table[grid, LATENT_START], len(table), len(neighbours)
    features = _features(weights.size, near)
    inputs = near + features
    first, end = band * BAND_ROWS, min(rows, (band + 1) * BAND_ROWS)
    with_ones = inputs + 1
    x = work[: with_ones * PIECE].reshape(with_ones, PIECE)
    place = x.size
    h1 = work[place : place + x.size].reshape(with_ones, PIECE)
    h2 = work[2 * place : 3 * place].reshape(with_ones, PIECE)
    place *= 3
    size = inputs * PIECE
    z1 = work[place : place + size].reshape(inputs, PIECE)
    z2 = work[place + size : place + 2 * size].reshape(inputs, PIECE)
    gradient = work[place + 2 * size : place + 3 * size].reshape(inputs, PIECE)
    place += 3 * size
    out = work[place : place + 2 * PIECE].reshape(2, PIECE)
    out_gradient = work[place + 2 * PIECE : place + 4 * PIECE].reshape(2, PIECE)
    latent_gradient = work[place + 4 * PIECE : place + 5 * PIECE]
    place += 5 * PIECE
    sums = work[place : place + weights.size * VECTOR]
    sums[:] = 0
    for array in (x, h1, h2):
        array[inputs] = 1
    matrix = inputs * with_ones
    w1 = weights.ctypes.data
    w2, w3, w_row = w1 + 4 * matrix, w1 + 8 * matrix, np.int64(4 * with_ones)
    s1 = sums.ctypes.data
    s2, s3 = s1 + 4 * VECTOR * matrix, s1 + 8 * VECTOR * matrix
    x_at, h1_at, h2_at = x.ctypes.data, h1.ctypes.data, h2.ctypes.data
    z1_at, z2_at, g_at = z1.ctypes.data, z2.ctypes.data, gradient.ctypes.data
    out_at, out_g_at = out.ctypes.data, out_gradient.ctypes.data
    if is_for_latents:
        reach = -neighbours[:, 0].min()
        own_gradient[start + (first - reach) * stride - 4 : start + end * stride - 4] = 0
        for up in range(1, features + 1):
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
            x[:inputs, count:padded] = 0
            for i in range(near):
                _copy(latents, here + neighbours[i, 0] * stride + neighbours[i, 1], x[i], count)
            for up in range(1, features + 1):
                target = x[near + up - 1]
                if grid + up < grids:
                    coarse = table[grid + up, LATENT_START] + (y >> up) * table[grid + up, STRIDE]
                    _repeat(latents, coarse + (left >> up), up, target, count)
                else:
                    target[:] = 0
            product(w1, w_row, _STEP, x_at, _ROW, z1_at, _ROW, inputs, padded, with_ones, _WRITE)
            _add_positive(z1, x, h1, padded)
            product(w2, w_row, _STEP, h1_at, _ROW, z2_at, _ROW, inputs, padded, with_ones, _WRITE)
            _add_positive(z2, h1, h2, padded)
            two = np.int64(2)
            product(w3, w_row, _STEP, h2_at, _ROW, out_at, _ROW, two, padded, with_ones, _WRITE)
            own = latents[here : here + count]
            bits += _laplace(own, out, scale, out_gradient, latent_gradient)
            out_gradient[:, count:] = 0
            add_row_products(out_g_at, _ROW, h2_at, _ROW, s3, two, with_ones, padded)
            product(w3, _STEP, w_row, out_g_at, _ROW, g_at, _ROW, inputs, padded, two, _WRITE)
            _mask(gradient, z2, padded)
            add_row_products(z2_at, _ROW, h1_at, _ROW, s2, inputs, with_ones, padded)
            product(w2, _STEP, w_row, z2_at, _ROW, g_at, _ROW, inputs, padded, inputs, _ADD)
            _mask(gradient, z1, padded)
            add_row_products(z1_at, _ROW, x_at, _ROW, s1, inputs, with_ones, padded)
            if not is_for_latents:
                continue
            product(w1, _STEP, w_row, z1_at, _ROW, g_at, _ROW, inputs, padded, inputs, _ADD)
            _add(latent_gradient, own_gradient, here, count)
            for i in range(near):
                there = here + neighbours[i, 0] * stride + neighbours[i, 1]
                _add(gradient[i], own_gradient, there, count)
            for up in range(1, features + 1):
                if grid + up < grids:
                    wide = table[grid + up, COLUMNS]
                    there = table[grid, FEATURE_START + up] + (y >> up) * wide + (left >> up)
                    _add_groups(gradient[near + up - 1], up, feature_gradient, there, count)
    for i in range(weights.size):
        total = _ZERO
        for number in sums[i * VECTOR : (i + 1) * VECTOR]:
            total += number
        network_gradient[i] = total
    return bits


@register_jitable
def _features(parameters, near):
    """Return the number of features of a rate model with that many parameters."""
    inputs = near
    while (2 * inputs + 2) * (inputs + 1) < parameters:
        inputs += 1
    return inputs - near


@register_jitable
def _copy(source, start, target, count):
    part = source[start : start + count]
    for i in range(count):
        target[i] = part[i]


@register_jitable
def _repeat(source, start, up, target, count):
    """Fill a row with every number of a coarser row 2 ** `up` times."""
    whole = count >> up
    part = source[start : start + whole + 1]
    if up == 1:
        for i in range(whole):
            target[2 * i] = part[i]
            target[2 * i + 1] = part[i]
    elif up == 2:
        for i in range(whole):
            for j in range(4):
                target[4 * i + j] = part[i]
    else:
        for i in range(whole):
            for j in range(i << up, (i + 1) << up):
                target[j] = part[i]
    for j in range(whole << up, count):
        target[j] = part[whole]


@register_jitable
def _add(source, target, start, count):
    part = target[start : start + count]
    for i in range(count):
        part[i] += source[i]


@register_jitable
def _add_groups(source, up, target, start, count):
    """Add the sums of 2 ** `up` numbers each to the numbers of a coarser row."""
    whole = count >> up
    part = target[start : start + whole + 1]
    if up == 1:
        for i in range(whole):
            part[i] += source[2 * i] + source[2 * i + 1]
    elif up == 2:
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
