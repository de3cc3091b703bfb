"""Resampling of an array's axes on a GPU, with one kernel launch for each axis."""

from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from neuralfield.engines.cuda.launch import THREADS, Launch
from neuralfield.engines.cuda.source import compile_kernel
from neuralfield.system.device import Array, namespace_of


def resample_axis(
    values: Array, axis: int, indices: Array, weights: Array, added_to: Array | None = None
) -> Array:
    """Resample an axis of a float32 array; see `lanczos_weights` for indices and weights.

    The result is added to an array, if one is given.
    """
    xp = namespace_of(values)
    values, (after, taps) = xp.ascontiguousarray(values), weights.shape
    outer, before, inner = values.shape[:axis], values.shape[axis], values.shape[axis + 1 :]
    resampled = added_to
    if resampled is None:
        resampled = xp.empty((*outer, after, *inner), np.float32)
    numbers = (*map(np.int32, (taps, before, after, prod(inner))), np.int64(resampled.size))
    arguments = (values, indices, weights, *numbers, np.int32(added_to is not None), resampled)
    kernel = _kernel(xp.cuda.Device().id)
    Launch(kernel, (-(-resampled.size // THREADS),), arguments)()
    return resampled


@cache
def _kernel(_device: int) -> Any:
    path = Path(__file__).with_name("gpu_resampling.cu")
    return compile_kernel(path, "resample_axis", {"THREADS": THREADS})
