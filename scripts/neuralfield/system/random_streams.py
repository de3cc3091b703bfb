"""Counter-based random numbers: the n-th number is a function of (seed, n), with no state to save.

The generator is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
2011), in plain array arithmetic. NumPy, CuPy and the CUDA kernels give the same numbers, and a
resumed training gets the same numbers as a training without interruption.
"""

from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from neuralfield.system.device import Array

PHILOX_ROUNDS = 10
PHILOX_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
PHILOX_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
FEISTEL_MULTIPLIERS = (0x9E3779B1, 0x85EBCA6B)
"""Constants of `philox`, with which kernels compute the same numbers, and of `permutation`."""

_WORD = 0xFFFFFFFF

STREAM_ORDER, STREAM_JITTER, STREAM_DENSITY, STREAM_DROPOUT, STREAM_HELD_OUT = 0, 1, 2, 3, 5
"""Last words of counters, which give different purposes independent random numbers."""

FEISTEL_ROUNDS = 8
"""Number of rounds of `permutation`; fewer rounds give visibly non-random orders of few numbers."""

_INDICES_AT_ONCE = 1 << 16  # fit in the cache of a core


def philox(xp: ModuleType, counter: tuple[Array | int, ...], seed: int) -> tuple[Array, ...]:
    """Return four random 32-bit words for every counter, as four arrays of uint32.

    A counter consists of four arrays of uint32, or ints, which are broadcast; the seed has 64 bits.
    """
    k0, k1 = seed & _WORD, (seed >> 32) & _WORD
    if xp.__name__ == "cupy":
        words = (np.uint32(w) if isinstance(w, int) else w.astype(xp.uint32) for w in counter)
        return _philox_kernel()(*words, np.uint32(k0), np.uint32(k1))
    c0, c1, c2, c3 = xp.broadcast_arrays(*(xp.asarray(word, dtype=xp.uint64) for word in counter))
    low_half, half = xp.uint64(_WORD), xp.uint64(32)
    for _ in range(PHILOX_ROUNDS):
        product0 = c0 * xp.uint64(PHILOX_MULTIPLIERS[0])
        product1 = c2 * xp.uint64(PHILOX_MULTIPLIERS[1])
        c0 = (product1 >> half) ^ c1 ^ xp.uint64(k0)
        c2 = (product0 >> half) ^ c3 ^ xp.uint64(k1)
        c1, c3 = product1 & low_half, product0 & low_half
        k0, k1 = (k0 + PHILOX_KEY_STEPS[0]) & _WORD, (k1 + PHILOX_KEY_STEPS[1]) & _WORD
    return tuple(word.astype(xp.uint32) for word in (c0, c1, c2, c3))


@cache
def _philox_kernel() -> Any:
    """Return the same computation as one kernel, which would otherwise be a hundred launches."""
    import cupy

    multiplier0, multiplier1 = PHILOX_MULTIPLIERS
    step0, step1 = PHILOX_KEY_STEPS
    return cupy.ElementwiseKernel(
        "uint32 c0, uint32 c1, uint32 c2, uint32 c3, uint32 k0, uint32 k1",
        "uint32 w0, uint32 w1, uint32 w2, uint32 w3",
        f"""
        unsigned int x0 = c0, x1 = c1, x2 = c2, x3 = c3, key0 = k0, key1 = k1;
        for (int round = 0; round < {PHILOX_ROUNDS}; ++round) {{
            unsigned long long product0 = {multiplier0}ull * x0, product1 = {multiplier1}ull * x2;
            x0 = (unsigned int)(product1 >> 32) ^ x1 ^ key0;
            x1 = (unsigned int)product1;
            x2 = (unsigned int)(product0 >> 32) ^ x3 ^ key1;
            x3 = (unsigned int)product0;
            key0 += {step0}u;
            key1 += {step1}u;
        }}
        w0 = x0; w1 = x1; w2 = x2; w3 = x3;
        """,
        "philox",
    )


def uniform(words: Array) -> Array:
    """Return float32 numbers in [0, 1): the upper 24 bits of 32-bit words, exactly."""
    return (words >> 8).astype("float32") * 2.0**-24


def permutation(size: int, seed: int, order: tuple[int, int]) -> np.ndarray:
    """Return the numbers from 0 to `size` - 1 in a random order; int64, on the host.

    The order is a keyed bijection: a balanced Feistel network over the smallest power of 4 of at
    least `size`, which is applied again until the number is below `size` (Black & Rogaway, "Ciphers
    with arbitrary finite domains", CT-RSA 2002). `size` is at most 2 ** 32, and `order` contains
    the last two words of a Philox counter.
    """
    half_bits = ((size - 1).bit_length() + 1) // 2
    words = philox(np, (np.arange(FEISTEL_ROUNDS // 4), 0, *order), seed)
    keys = np.stack(words, axis=-1).reshape(-1)
    result = np.empty(size, np.int64)
    for first in range(0, size, _INDICES_AT_ONCE):
        last = min(first + _INDICES_AT_ONCE, size)
        found = _feistel(np.arange(first, last, dtype=np.uint32), half_bits, keys)
        while (outside := np.flatnonzero(found >= size)).size:
            found[outside] = _feistel(found[outside], half_bits, keys)
        result[first:last] = found
    return result


def _feistel(number: np.ndarray, half_bits: int, keys: np.ndarray) -> np.ndarray:
    half, mask = np.uint32(half_bits), np.uint32((1 << half_bits) - 1)
    left, right = number >> half, number & mask
    for key in keys:
        mixed = (right ^ key) * np.uint32(FEISTEL_MULTIPLIERS[0])
        mixed ^= mixed >> np.uint32(15)
        mixed *= np.uint32(FEISTEL_MULTIPLIERS[1])
        mixed ^= mixed >> np.uint32(16)
        left, right = right, left ^ (mixed & mask)
    return (left << half) | right
