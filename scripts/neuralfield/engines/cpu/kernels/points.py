"""The points of a pixel, as in `nn.sampling` and `system.random_streams`."""

import numpy as np
from numba.extending import register_jitable

from neuralfield.system.random_streams import (
    PHILOX_KEY_STEPS,
    PHILOX_MULTIPLIERS,
    PHILOX_ROUNDS,
    STREAM_JITTER,
)

_WORD = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLIER_0, _MULTIPLIER_1 = map(np.uint64, PHILOX_MULTIPLIERS)
_KEY_STEP_0, _KEY_STEP_1 = map(np.uint64, PHILOX_KEY_STEPS)


@register_jitable
def philox(counter_0, counter_1, counter_2, counter_3, seed, words):
    """Make four random words, see `random_streams.philox`; all are uint64 below 2 ** 32."""
    key_0, key_1 = seed & _WORD, seed >> _HALF
    for _ in range(PHILOX_ROUNDS):
        product_0, product_1 = counter_0 * _MULTIPLIER_0, counter_2 * _MULTIPLIER_1
        counter_0 = (product_1 >> _HALF) ^ counter_1 ^ key_0
        counter_2 = (product_0 >> _HALF) ^ counter_3 ^ key_1
        counter_1, counter_3 = product_1 & _WORD, product_0 & _WORD
        key_0, key_1 = (key_0 + _KEY_STEP_0) & _WORD, (key_1 + _KEY_STEP_1) & _WORD
    words[0], words[1], words[2], words[3] = counter_0, counter_1, counter_2, counter_3


@register_jitable
def _uniform(word):
    return np.float64(word >> np.uint64(8)) * 2.0**-24


@register_jitable
def spread(pixel, step, points, seed, words, offsets):
    """Write offsets of points from their pixel's centre, in px: see `sampling.Footprint.spread`.

    `words` is work memory, shape (4 * points + 8,); `offsets` has shape (points, 2).
    """
    first_points = (points + 1) // 2
    counters = (first_points + 1) // 2
    purpose = np.uint64(STREAM_JITTER)
    for group in range(2):
        count = first_points if group == 0 else points - first_points
        start = group * first_points
        for index in range(counters):
            number = np.uint64(group * counters + index)
            philox(pixel, number, step, purpose, seed, words[4 * index : 4 * index + 4])
        for point in range(count):
            across, down = words[2 * point], words[2 * point + 1]
            key = ((across & np.uint64(255)) << np.uint64(8)) | (down & np.uint64(255))
            # the points' rows are the argsort of their keys; `place` is this point's rank
            place = 0
            for other in range(count):
                word = words[2 * other]
                rival = ((word & np.uint64(255)) << np.uint64(8)) | (
                    words[2 * other + 1] & np.uint64(255)
                )
                if rival < key or (rival == key and other < point):
                    place += 1
            offsets[start + point, 0] = (point + _uniform(across)) / count - 0.5
            # the point with the number `place` gets this point's number as its row
            offsets[start + place, 1] = point
        for point in range(count):
            down = words[2 * point + 1]
            row = offsets[start + point, 1]
            offsets[start + point, 1] = (row + _uniform(down)) / count - 0.5
