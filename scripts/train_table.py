"""Train a network on a table."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from entry.job import run_job
from entry.table_network import read_task
from entry.training import train_task


def main(
    table: Path,
    model: Path,
    *,
    settings: Mapping[str, Any],
    training: Mapping[str, Any],
    execution: Mapping[str, Any],
    threads: int,
    log_path: Path | None = None,
) -> None:
    """Train a table's network and write it; for `settings` see `entry.table_network.read_task`."""
    make_task = partial(read_task, table, settings, training)
    train_task(make_task, model, {**training, **execution}, threads, log_path)


if __name__ == "__main__":
    run_job(main)
