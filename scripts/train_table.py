"""Train a network on a table."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from entry.job import run_job
from entry.table_network import read_task
from entry.training import train_task, training_arguments


def main(
    table: Path, *, settings: Mapping[str, Any], training: Mapping[str, Any], **job: Any
) -> None:
    """Train a table's network and write it.

    For `settings` and `training` see `entry.table_network.read_task`; ``**job`` is passed to
    `entry.training.train_task`.
    """
    train_task(partial(read_task, table, settings, training), training, **job)


if __name__ == "__main__":
    run_job(main, training_arguments)
