"""The probabilities of coded values: a Laplace distribution in integer arithmetic.

All numbers fit in 32 bits, and the only tables are two of 64 numbers, which are defined by integer
arithmetic, so that coder and decoder agree on every machine.
"""

import numpy as np

STEPS = 64
LEAST_SCALE, LARGEST_SCALE = -6 * STEPS, 7 * STEPS - 1
"""Bounds of the scale s, in steps of an octave / 64: the density is 2^(-|v - mu| / 2^(s / 64))."""

MEAN_BITS = 8
LARGEST_MEAN = 64 << MEAN_BITS
"""Means are integers of at most this size, in steps of 2 ** -MEAN_BITS."""

PROBABILITY_BITS = 16


def _root_table() -> np.ndarray:
    """Return floor(2^15 2^(-i / 64)): the largest n with n^64 <= 2^(960 - i), for i < 64."""
    found = []
    for i in range(STEPS):
        n = int(2 ** (15 - i / STEPS)) + 2
        while n**STEPS > 1 << (15 * STEPS - i):
            n -= 1
        found.append(n)
    return np.array(found, np.int32)


def _fine_table() -> np.ndarray:
    """Return 2^15 2^(-j / 4096) to within 1, by a series, for j < 64."""
    j = np.arange(STEPS, dtype=np.int32)
    return (1 << 15) - (j * 5678 >> 10) + (j * j >> 11)


TABLES = np.stack([_root_table(), _fine_table()]).astype(np.int32)
"""2^15 2^(-i / 64) and 2^15 2^(-j / 4096), shape (2, 64)."""
