"""Weights that somebody claims: settings before they are made, files before they are believed."""

from collections.abc import Mapping, Sequence

import numpy as np

from neuralfield.system.device import HOST, require_memory

_BYTES_PER_WEIGHT = 16
"""In float64, and once more while it is made."""

_NOT_WORTH_A_LOOK_BYTES = 1 << 28

Shapes = Sequence[tuple[int, int]]
"""Of each matrix of a network."""


def require_memory_for(shapes: Shapes, where: str) -> None:
    """Check that a network fits into memory, before any of it is made.

    Raises
    ------
    ResourceError
    """
    weights = sum(into * out for into, out in shapes)
    if (needed_bytes := _BYTES_PER_WEIGHT * weights) > _NOT_WORTH_A_LOOK_BYTES:
        require_memory(needed_bytes, HOST, where, "make the network smaller")


def require_numbers(arrays: Mapping[str, np.ndarray]) -> None:
    """Check that the arrays of a file can be weights.

    Raises
    ------
    ValueError
        They are not numbers of 32 or 64 bits, or not finite in 32 bits.
    """
    for name, array in arrays.items():
        if array.dtype not in (np.float32, np.float64):
            raise ValueError(f"{name} of type {array.dtype}")
        with np.errstate(over="ignore"):
            if not np.isfinite(array.astype(np.float32)).all():
                raise ValueError(f"{name} holds numbers that are not finite")


def require_enough(arrays: Mapping[str, np.ndarray], shapes: Shapes, claimed: object) -> None:
    """Check that a file has the weights of the network that it claims to hold.

    A few words can claim a network larger than any memory, so this comes before it is built.

    Parameters
    ----------
    arrays : mapping of name to array
    shapes : sequence of (int, int)
        What the network needs; none: it cannot be told.
    claimed : object
        The network's settings, for the message.

    Raises
    ------
    ValueError
        There are too few.
    """
    values = sum(array.size for array in arrays.values())
    needed = sum(into * out for into, out in shapes)
    if not 0 < len(shapes) <= len(arrays) or needed > values:
        raise ValueError(f"{values} weights in {len(arrays)} arrays are too few for {claimed}")
