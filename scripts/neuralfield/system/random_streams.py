"""Counter-based random numbers: the n-th number is a function of (seed, n), with no state to save.

The generator is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
2011), in plain array arithmetic. NumPy, CuPy and the CUDA kernels give the same numbers, and a
resumed training gets the same numbers as a training without interruption.
"""

from types import ModuleType

import numpy as np

from neuralfield.system.device import Array

PHILOX_ROUNDS = 10
PHILOX_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
PHILOX_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
FEISTEL_MULTIPLIERS = (0x9E3779B1, 0x85EBCA6B)
"""Constants of `philox`, with which kernels compute the same numbers, and of `permuted`."""

_WORD = 0xFFFFFFFF

STREAM_ORDER, STREAM_JITTER, STREAM_DENSITY, STREAM_DROPOUT, STREAM_HELD_OUT = 0, 1, 2, 3, 5
"""Last words of counters, which give different purposes independent random numbers."""

FEISTEL_ROUNDS = 8
"""Number of rounds of `permuted`; fewer rounds give visibly non-random orders of few elements."""


def philox(xp: ModuleType, counter: tuple[Array | int, ...], seed: int) -> tuple[Array, ...]:
    """Return four random 32-bit words for every counter, as four arrays of uint32.

    A counter consists of four arrays of uint32, or ints, which are broadcast; the seed has 64 bits.
    """
    c0, c1, c2, c3 = xp.broadcast_arrays(*(xp.asarray(word, dtype=xp.uint64) for word in counter))
    k0, k1 = seed & _WORD, (seed >> 32) & _WORD
    low_half, half = xp.uint64(_WORD), xp.uint64(32)
    for _ in range(PHILOX_ROUNDS):
        product0 = c0 * xp.uint64(PHILOX_MULTIPLIERS[0])
        product1 = c2 * xp.uint64(PHILOX_MULTIPLIERS[1])
        c0 = (product1 >> half) ^ c1 ^ xp.uint64(k0)
        c2 = (product0 >> half) ^ c3 ^ xp.uint64(k1)
        c1, c3 = product1 & low_half, product0 & low_half
        k0, k1 = (k0 + PHILOX_KEY_STEPS[0]) & _WORD, (k1 + PHILOX_KEY_STEPS[1]) & _WORD
    return tuple(word.astype(xp.uint32) for word in (c0, c1, c2, c3))


def uniform(words: Array) -> Array:
    """Return float32 numbers in [0, 1): the upper 24 bits of 32-bit words, exactly."""
    return (words >> 8).astype("float32") * 2.0**-24


def permuted(xp: ModuleType, places: Array, size: int, seed: int, order: tuple[int, int]) -> Array:
    """Return the elements at the given indices of a random permutation of ``range(size)``.

    The permutation is a keyed bijection that is computed for each index independently, without
    sorting, memory or state. It is a balanced Feistel network over the smallest power of 4 of at
    least `size`, which is applied again until the number is below `size` (Black & Rogaway, "Ciphers
    with arbitrary finite domains", CT-RSA 2002). `size` is at most 2 ** 32, and `order` has the
    last two words of a Philox counter.
    """
    half_bits = ((size - 1).bit_length() + 1) // 2
    keys = np.stack(philox(np, (np.arange(FEISTEL_ROUNDS // 4), 0, *order), seed), axis=-1)
    found = _feistel(xp, places.astype(xp.uint32), half_bits, keys.reshape(-1))
    while True:
        outside = found >= size
        if not outside.any():
            return found.astype(xp.int64)
        found = xp.where(outside, _feistel(xp, found, half_bits, keys.reshape(-1)), found)


def _feistel(xp: ModuleType, number: Array, half_bits: int, keys: np.ndarray) -> Array:
    half, mask = xp.uint32(half_bits), xp.uint32((1 << half_bits) - 1)
    left, right = number >> half, number & mask
    for key in keys:
        mixed = (right ^ key) * xp.uint32(FEISTEL_MULTIPLIERS[0])
        mixed ^= mixed >> xp.uint32(15)
        mixed *= xp.uint32(FEISTEL_MULTIPLIERS[1])
        mixed ^= mixed >> xp.uint32(16)
        left, right = right, left ^ (mixed & mask)
    return (left << half) | right
