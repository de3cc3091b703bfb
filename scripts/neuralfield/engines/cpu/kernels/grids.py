"""Hash grids, as in `fields.hashgrid`: features of points, and gradients of the features.

Corners and weights are recomputed wherever they are needed, although those of pixels' centres are
the same in every step. The computation is vectorized and a small part of a step, and nothing has to
be stored and loaded for each point and level.
"""

import numpy as np
from numba.extending import register_jitable

from neuralfield.engines.cpu.kernels import entry_point
from neuralfield.fields.hashgrid import HASH_PRIME

RESOLUTION, START, TABLE_ROWS, IS_HASHED, COLUMNS, SKIPPED = range(6)
"""Columns of `levels`, see `neuralfield.fields.hashgrid.Level`; one row for each."""

CORNERS = 4

_POINTS_AT_ONCE = 512
"""Number of points that are processed together: their corners stay in a core's nearest cache."""

_OPTIONS = {"fastmath": {"contract"}, "error_model": "numpy"}
_PRIME = np.int32(HASH_PRIME - (1 << 32))
"""The spatial hash's prime in 32 bits; the lowest bits of hashes are the same as in more bits."""
_ZERO, _HALF, _ONE = np.float32(0), np.float32(0.5), np.float32(1)


@register_jitable(**_OPTIONS)
def _near_corner(coordinate, resolution):
    """Find the corner of a point's cell nearest to the origin, along an axis, and the distance of
    the point from it."""
    position = (coordinate + _ONE) * _HALF * resolution
    # a point on the far edge belongs to the last cell
    near = min(max(np.floor(position), _ZERO), resolution - _ONE)
    return np.int32(near), position - near


@register_jitable(**_OPTIONS)
def find_corners(level, size, xs, ys, places, weights):
    """Find the corners that points are interpolated from in a level with `size` features each.

    Writes `places` and `weights`, both of shape (4, at least n): the indices at which the corners'
    features begin among those of the level, and the corners' weights.
    """
    resolution, rows = np.float32(level[RESOLUTION]), level[TABLE_ROWS]
    side, skipped = np.int32(level[COLUMNS]), np.int32(level[SKIPPED])
    if level[IS_HASHED]:
        mask = np.int32(rows - 1)
        for i in range(xs.size):
            column, u = _near_corner(xs[i], resolution)
            line, v = _near_corner(ys[i], resolution)
            above = np.int32(line * _PRIME)
            below, right = np.int32(above + _PRIME), np.int32(column + 1)
            places[0, i] = ((column ^ above) & mask) * size
            places[1, i] = ((right ^ above) & mask) * size
            places[2, i] = ((column ^ below) & mask) * size
            places[3, i] = ((right ^ below) & mask) * size
            _put_weights(u, v, weights, i)
    else:
        for i in range(xs.size):
            column, u = _near_corner(xs[i], resolution)
            line, v = _near_corner(ys[i], resolution)
            place = np.int32((line * side + column - skipped) * size)
            places[0, i], places[1, i] = place, place + size
            places[2, i], places[3, i] = place + side * size, place + side * size + size
            _put_weights(u, v, weights, i)


@register_jitable(**_OPTIONS)
def _put_weights(u, v, weights, i):
    left, above = _ONE - u, _ONE - v
    weights[0, i], weights[1, i] = left * above, u * above
    weights[2, i], weights[3, i] = left * v, u * v


@register_jitable
def put_features(levels, features, points, count, memory, start, length, corners):
    """Write features of points, shape (2, at least count), as rows of the first layer's values.

    `levels` has shape (L, 6), `features` (rows, size). Rows begin at `start` of `memory`, `length`
    numbers apart. `corners` is work memory: places and weights, see `find_corners`.
    """
    size, (places, weights) = features.shape[1], corners
    for number in range(len(levels)):
        level = levels[number]
        find_corners(level, size, points[0, :count], points[1, :count], places, weights)
        first, rows = level[START], level[TABLE_ROWS]
        numbers = features[first : first + rows].reshape(rows * size)
        for feature in range(size):
            target = memory[start + number * size + feature :]
            _interpolate(numbers[feature:], places, weights, count, target, length)


@register_jitable(**_OPTIONS)
def _interpolate(numbers, places, weights, count, target, length):
    for i in range(count):
        above = weights[0, i] * numbers[places[0, i]] + weights[1, i] * numbers[places[1, i]]
        below = weights[2, i] * numbers[places[2, i]] + weights[3, i] * numbers[places[3, i]]
        target[i * length] = above + below


@entry_point
def add_level_gradient(levels, number, points, gradients, count, gradient, is_first):
    """Sum the gradient of a level's features in the order of the points.

    `points` has shape (2, at least count); `gradients`, with respect to the points' features, has
    shape (L * size, at least count). `gradient`, shape (rows, size), is overwritten if `is_first`,
    and accumulated otherwise.
    """
    level, size = levels[number], gradient.shape[1]
    first, rows = level[START], level[TABLE_ROWS]
    sums = gradient[first : first + rows].reshape(rows * size)
    if is_first:
        sums[:] = 0
    places = np.empty((CORNERS, _POINTS_AT_ONCE), np.uint32)
    weights = np.empty((CORNERS, _POINTS_AT_ONCE), np.float32)
    for start in range(0, count, _POINTS_AT_ONCE):
        end = min(start + _POINTS_AT_ONCE, count)
        find_corners(level, size, points[0, start:end], points[1, start:end], places, weights)
        for feature in range(size):
            feature_gradient = gradients[number * size + feature, start:end]
            _add_shares(feature_gradient, places, weights, sums[feature:])


@register_jitable(**_OPTIONS)
def _add_shares(feature_gradient, places, weights, sums):
    for i in range(feature_gradient.size):
        for corner in range(CORNERS):
            sums[places[corner, i]] += weights[corner, i] * feature_gradient[i]
