"""The network of a table that the settings describe, and what it answers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from neuralfield.system.provenance import require_finished, require_same_training
from neuralfield.tasks.table.samples import Samples, held_out_rows, read_samples
from neuralfield.tasks.table.table_model import TableModel
from neuralfield.tasks.table.table_task import TableTask


def read_own(
    table: Path,
    model: Path,
    settings: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
) -> tuple[TableModel, Samples]:
    """Read a table's network, and its samples; one of another table or training is refused, if
    there are settings to compare it with.
    """
    network = TableModel.load(model)
    if settings is None or training is None:
        return network, read_samples(table, network.inputs, network.targets)
    task = read_task(table, settings, training)
    expected = f"the network that the settings describe, of {task.samples.where}"
    require_same_training(model, network.provenance, task.provenance, expected)
    require_finished(model, network.metadata, task.training.steps)
    return network, task.samples


def read_task(table: Path, settings: Mapping[str, Any], training: Mapping[str, Any]) -> TableTask:
    """Read a CSV as a task to train on; for `settings` see `TableTask.from_settings`."""
    samples = read_samples(table, settings["inputs"], settings["targets"])
    return TableTask.from_settings(samples, settings, training)


def held_out_mask(network: TableModel, count: int) -> np.ndarray:
    """Return which rows a network was not trained on; bool, shape (count,)."""
    seed = network.metadata["training"]["random_seed"]
    return held_out_rows(count, network.metadata["held_out_share"], seed)
