"""Writes the results of a finished training: the network, with the correction of its renders."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from neuralfield.system.device import Device, to_host
from neuralfield.tasks.stored_model import StoredModel
from neuralfield.training.loop import Execution, Publish
from neuralfield.training.results import publish_results
from neuralfield.training.trainer import Trainer

_MOST_VALUES_AHEAD = 1 << 21
"""Numbers of an image whose correction is found once beforehand, for its kernels."""


def publishing(outputs: Mapping[str, Path], run: Execution) -> Publish:
    """Return what writes the outputs of a finished training; see `outputs_in`."""
    finish = partial(finished_model, threads=run.threads)
    return partial(publish_results, **outputs, execution=run, finish=finish)


def compile_ahead(task: Any, device: Device) -> AbstractContextManager[Any]:
    """Have the kernels that `finished_model` needs on a GPU compiled in the background, while those
    of the training are; the end of the context waits for it. Large images are left out, whose
    corrections take the GPU for longer than their kernels.
    """
    is_small = getattr(task, "is_corrected", False) and task.values.size <= _MOST_VALUES_AHEAD
    if device.kind == "cpu" or not is_small:
        return nullcontext()
    compiler = ThreadPoolExecutor(1, initializer=device.xp.cuda.Device().use)
    compiler.submit(_find_fresh_residual, task, device)
    return compiler


def _find_fresh_residual(task: Any, device: Device) -> None:
    """Find the residual of the network before its training, which has the same kernels."""
    from neuralfield.rendering.residual import find_residual

    arrays = {name: to_host(array) for name, array in task.fresh_network().arrays.items()}
    is_mixed = task.training.precision in ("auto", "mixed")
    metadata = {"precision": "mixed" if is_mixed else task.training.precision}
    fresh = replace(task.model, arrays=arrays, metadata=metadata)
    find_residual(fresh, task.values, task.residual_scale, device=device)


def finished_model(trainer: Trainer, *, threads: int) -> StoredModel[Any]:
    """Return the model that the present network is written as: with a residual, if it has one."""
    task: Any = trainer.task
    if not task.is_corrected:
        return task.model
    # imported here, because most trainings end without
    from neuralfield.rendering.residual import find_residual

    model: Any = trainer.present_model()
    residual = find_residual(
        model, task.values, task.residual_scale, device=trainer.device, threads=threads
    )
    return replace(task.model, residual=residual)
