"""Teach a network to tell pictures apart."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuralfield.classifier_task import ClassifierTask
from neuralfield.classifiers.labelled import LabelledPictures, read_labelled
from neuralfield.networks.classifier import ConvolutionalClassifier
from neuralfield.training import ClassifierTraining
from training_job import of_the_training, teach

if TYPE_CHECKING:
    from job import snakemake


def main(
    pictures: Path,
    labels: Path,
    *,
    network: Mapping[str, Any],
    training: Mapping[str, Any],
    checksums: Mapping[str, str],
    **job: Any,
) -> None:
    """Train to the end, and write the network.

    Parameters
    ----------
    pictures, labels : Path
        IDX files of what is taught.
    network : mapping
        Settings of the network.
    training : mapping
        Settings of the training, and of how and where it is worked on.
    checksums : mapping
        SHA-256 of files, by their names.
    **job
        See `training_job.teach`.
    """
    teach(
        lambda: classifier_task(read_labelled(pictures, labels, checksums), network, training),
        training=training,
        **job,
    )


def classifier_task(
    labelled: LabelledPictures, network: Mapping[str, Any], training: Mapping[str, Any]
) -> ClassifierTask:
    """What is learned, and how; settings as `main`."""
    return ClassifierTask(
        labelled,
        ConvolutionalClassifier.from_mapping(network),
        ClassifierTraining.from_mapping(of_the_training(training)),
    )


if __name__ == "__main__":
    from job import run_job

    settings = snakemake.config["classifiers"][snakemake.wildcards.classifier]
    run_job(
        main,
        snakemake,
        pictures=Path(snakemake.input.pictures),
        labels=Path(snakemake.input.labels),
        network=settings["network"],
        training=settings["training"],
        checksums=settings["checksums"],
        state=Path(snakemake.params.state),
        threads=snakemake.threads,
        name=snakemake.wildcards.classifier,
        **{name: Path(path) for name, path in snakemake.output.items()},
    )
