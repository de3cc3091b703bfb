"""Counter-based random numbers: the n-th number is a function of (seed, n), with no state to save.

Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), in plain
array arithmetic, so that NumPy, CuPy and a CUDA kernel all draw the same numbers and a resumed
run draws what the run left alone would have drawn.
"""

from types import ModuleType

from neuralfield.device import Array

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_WORD = 0xFFFFFFFF


def philox(xp: ModuleType, counter: tuple[Array | int, ...], seed: int) -> tuple[Array, ...]:
    """Four random 32-bit words for every counter.

    Parameters
    ----------
    xp : module
        ``numpy`` or ``cupy``.
    counter : tuple of four (arrays of uint32 that broadcast, or int)
    seed : int
        The 64-bit key.

    Returns
    -------
    tuple of four arrays of uint32
    """
    c0, c1, c2, c3 = xp.broadcast_arrays(*(xp.asarray(word, dtype=xp.uint64) for word in counter))
    k0, k1 = seed & _WORD, (seed >> 32) & _WORD
    low_half, half = xp.uint64(_WORD), xp.uint64(32)
    for _ in range(_ROUNDS):
        product0 = c0 * xp.uint64(_MULTIPLIERS[0])
        product1 = c2 * xp.uint64(_MULTIPLIERS[1])
        c0 = (product1 >> half) ^ c1 ^ xp.uint64(k0)
        c2 = (product0 >> half) ^ c3 ^ xp.uint64(k1)
        c1, c3 = product1 & low_half, product0 & low_half
        k0, k1 = (k0 + _WEYL[0]) & _WORD, (k1 + _WEYL[1]) & _WORD
    return tuple(word.astype(xp.uint32) for word in (c0, c1, c2, c3))


def uniform(words: Array) -> Array:
    """float32 in [0, 1) from 32-bit words: their upper 24 bits, exactly."""
    return (words >> 8).astype("float32") * 2.0**-24


def permutation(xp: ModuleType, size: int, seed: int, stream: int, index: int) -> Array:
    """The `index`-th random order of ``range(size)``.

    Returns
    -------
    array of int64, shape (size,)
    """
    high, low, _, _ = philox(xp, (xp.arange(size, dtype=xp.uint64), index, stream, 0), seed)
    # 64-bit keys: two of them are equal so rarely that how a sort breaks ties cannot matter
    return xp.argsort((high.astype(xp.uint64) << xp.uint64(32)) | low.astype(xp.uint64))
