"""Train a network on an image."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from entry.job import run_job
from entry.training import train_task, training_arguments
from neuralfield.tasks.image_fit import read_task


def main(
    pixels: Path, facts: Path, *, field: Mapping[str, Any], training: Mapping[str, Any], **job: Any
) -> None:
    """Train, and write the network and its training's history, record and checkpoints.

    `field` and `training` are the settings of the network and of its training; ``**job`` is passed
    to `entry.training.train_task`.
    """
    make_task = partial(read_task, pixels, facts, field, training)
    train_task(make_task, training, previews=True, **job)


if __name__ == "__main__":
    run_job(main, training_arguments)
