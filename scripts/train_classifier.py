"""Teach a network to tell pictures apart."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from entry.training import teach
from neuralfield.tasks.classifier.classifier_task import ClassifierTask
from neuralfield.tasks.classifier.labelled import read_labelled

if TYPE_CHECKING:
    from entry.job import snakemake


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
        lambda: ClassifierTask.from_settings(
            read_labelled(pictures, labels, checksums), network, training
        ),
        training=training,
        **job,
    )


if __name__ == "__main__":
    from entry.job import run_job

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
