"""The correction of renders that the file of a finished network contains."""

import contextlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from neuralfield.rendering.residual import find_residual
from neuralfield.system.device import Device, to_host
from neuralfield.tasks.stored_model import StoredModel
from neuralfield.training.trainer import Trainer

_MOST_VALUES = 1 << 21
"""Maximum number of values of an image whose correction is computed only to compile its kernels,
which depend on the size; for larger images, this takes longer than the compiler."""


def finished_model(trainer: Trainer, model: Any) -> StoredModel[Any]:
    """Return the model to write for a finished network, with a residual if its task has one."""
    task: Any = trainer.task
    if not task.is_corrected:
        return model
    how = {"device": trainer.device, "threads": trainer.threads}
    return replace(model, residual=find_residual(model, task.values, task.residual_scale, **how))


def compile_ahead(task: Any, device: Device) -> contextlib.AbstractContextManager[Any]:
    """Compile, on a GPU, the kernels of `finished_model` while those of the steps are compiled."""
    if device.kind == "cpu" or not task.is_corrected or task.values.size > _MOST_VALUES:
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
