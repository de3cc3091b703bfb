"""The network that a finished training writes, with the correction of its renders."""

from dataclasses import replace
from typing import Any

from neuralfield.tasks.stored_model import StoredModel
from neuralfield.training.trainer import Trainer


def finished_model(trainer: Trainer, model: Any) -> StoredModel[Any]:
    """Return the model to write for a finished network, with a residual if its task has one."""
    task: Any = trainer.task
    if not task.is_corrected:
        return model
    # imported here, because most trainings end without a residual
    from neuralfield.rendering.residual import find_residual

    residual = find_residual(
        model, task.values, task.residual_scale, device=trainer.device, threads=trainer.threads
    )
    return replace(model, residual=residual)
