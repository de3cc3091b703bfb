"""Compiles, on a GPU, the kernels that the end of a training needs, while those of its steps are
compiled.
"""

import contextlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from neuralfield.rendering.residual import find_residual
from neuralfield.system.device import Device, to_host

_MOST_VALUES = 1 << 21
"""Maximum number of values of an image whose correction is computed only to compile its kernels,
which depend on the size; for larger images, this takes longer than the compiler."""


def compile_ahead(task: Any, device: Device) -> contextlib.AbstractContextManager[Any]:
    """Compile the kernels of the correction that `finished_model` computes, within the context."""
    is_corrected = getattr(task, "is_corrected", False)
    if device.kind == "cpu" or not is_corrected or task.values.size > _MOST_VALUES:
        return contextlib.nullcontext()
    compiler = ThreadPoolExecutor(1, initializer=device.xp.cuda.Device().use)
    compiler.submit(_find_fresh_residual, task, device)
    return compiler


def _find_fresh_residual(task: Any, device: Device) -> None:
    """Find the residual of the untrained network, which needs the same kernels."""
    arrays = {name: to_host(array) for name, array in task.fresh_network().arrays.items()}
    is_mixed = task.training.precision in ("auto", "mixed")
    metadata = {"precision": "mixed" if is_mixed else task.training.precision}
    fresh = replace(task.model, arrays=arrays, metadata=metadata)
    find_residual(fresh, task.values, task.residual_scale, device=device)
