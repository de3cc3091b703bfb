"""Reading the trained network of a table, and the task that it was trained on."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neuralfield.system.provenance import require_finished, require_same_training
from neuralfield.tasks.table.samples import read_samples
from neuralfield.tasks.table.table_model import TableModel
from neuralfield.tasks.table.table_task import TableTask


def read_own(
    table: Path, model: Path, settings: Mapping[str, Any], training: Mapping[str, Any]
) -> tuple[TableModel, TableTask]:
    """Read a table's network and its task; refuse a network that was trained on another task."""
    network, task = TableModel.load(model), read_task(table, settings, training)
    expected = f"the network that the settings describe, of {task.samples.where}"
    require_same_training(model, network.provenance, task.provenance, expected)
    require_finished(model, network.metadata, task.training.steps)
    return network, task


def read_task(table: Path, settings: Mapping[str, Any], training: Mapping[str, Any]) -> TableTask:
    """Read a CSV as a task to train on; for `settings` see `TableTask.from_settings`."""
    samples = read_samples(table, settings["inputs"], settings["targets"])
    return TableTask.from_settings(samples, settings, training)
