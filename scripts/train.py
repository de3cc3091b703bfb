"""Train a network on an image."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from entry.job import run_job
from entry.training import train_task
from neuralfield.tasks.image_fit import read_task


def main(
    pixels: Path,
    facts: Path,
    model: Path,
    *,
    field: Mapping[str, Any],
    training: Mapping[str, Any],
    execution: Mapping[str, Any],
    threads: int,
    log_path: Path | None = None,
) -> None:
    """Train, and write the network, and beside it its training's history, record and checkpoints.

    `field` and `training` are the settings of the network and of its training, and `execution`
    those that the result does not depend on.
    """
    make_task = partial(read_task, pixels, facts, field, training)
    train_task(make_task, model, {**training, **execution}, threads, log_path, previews=True)


if __name__ == "__main__":
    run_job(main)
