"""Writes the results of a finished training: the network, with the correction of its renders."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from neuralfield.tasks.stored_model import StoredModel
from neuralfield.training.loop import Execution, Publish
from neuralfield.training.results import publish_results
from neuralfield.training.trainer import Trainer


def publishing(outputs: Mapping[str, Path], run: Execution) -> Publish:
    """Return a function that writes the outputs of a finished training; see `outputs_in`."""
    finish = partial(finished_model, threads=run.threads)
    return partial(publish_results, **outputs, execution=run, finish=finish)


def finished_model(trainer: Trainer, model: Any, *, threads: int) -> StoredModel[Any]:
    """Return the model to write for a finished network, with a residual if its task has one."""
    task: Any = trainer.task
    if not task.is_corrected:
        return model
    # imported here, because most trainings end without a residual
    from neuralfield.rendering.residual import find_residual

    residual = find_residual(
        model, task.values, task.residual_scale, device=trainer.device, threads=threads
    )
    return replace(model, residual=residual)
