"""Train a network to classify images."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from entry.job import run_job
from entry.training import train_task
from neuralfield.tasks.classifier.classifier_task import ClassifierTask
from neuralfield.tasks.classifier.labelled import read_labelled


def main(
    images: Path,
    labels: Path,
    model: Path,
    *,
    network: Mapping[str, Any],
    training: Mapping[str, Any],
    checksums: Mapping[str, str],
    execution: Mapping[str, Any],
    threads: int,
    log_path: Path | None = None,
) -> None:
    """Train a classifier and write it.

    `images` and `labels` are IDX files, and `checksums` has the SHA-256 of files by their names.
    """

    def read_task() -> ClassifierTask:
        labelled = read_labelled(images, labels, checksums)
        return ClassifierTask.from_settings(labelled, network, training)

    train_task(read_task, model, {**training, **execution}, threads, log_path)


if __name__ == "__main__":
    run_job(main)
