"""Teach a network a table."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from entry.training import teach
from neuralfield.tasks.table.samples import read_samples
from neuralfield.tasks.table.table_task import TableTask

if TYPE_CHECKING:
    from entry.job import snakemake


def main(
    table: Path, *, settings: Mapping[str, Any], training: Mapping[str, Any], **job: Any
) -> None:
    """Train to the end, and write the network.

    Parameters
    ----------
    table : Path
        CSV with a row for each sample.
    settings : mapping
        What `table_task` reads.
    training : mapping
        Settings of the training, and of how and where it is worked on.
    **job
        See `training_job.teach`.
    """
    teach(lambda: table_task(table, settings, training), training=training, **job)


def table_task(table: Path, settings: Mapping[str, Any], training: Mapping[str, Any]) -> TableTask:
    """What is learned, and how.

    Parameters
    ----------
    table : Path
    settings : mapping
        Of a table in the section `tables`: ``inputs``, ``targets``, ``network``,
        ``scale_inputs``, ``scale_targets`` and ``held_out_share``.
    training : mapping
        As `main`.
    """
    samples = read_samples(table, settings["inputs"], settings["targets"])
    return TableTask.from_settings(samples, settings, training)


if __name__ == "__main__":
    from entry.job import run_job

    run_job(
        main,
        snakemake,
        table=Path(snakemake.input.table),
        settings=snakemake.params.settings,
        training=snakemake.config["tables"][snakemake.wildcards.network.split("/")[0]]["training"],
        state=Path(snakemake.params.state),
        threads=snakemake.threads,
        name=snakemake.wildcards.network,
        **{name: Path(path) for name, path in snakemake.output.items()},
    )
