"""Teach a network a picture: a whole training, or one segment of it."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from entry.image_network import settings_for
from entry.training import teach
from neuralfield.images import read_facts, read_pixel_csv, require_picture
from neuralfield.system.provenance import made_by_the_workflow
from neuralfield.tasks.image.image_task import PictureTask
from neuralfield.tasks.upscaler.upscaler_task import UpscalingTask, picture_task

if TYPE_CHECKING:
    from entry.job import snakemake


def main(
    pixels: Path,
    facts: Path,
    *,
    field: Mapping[str, Any],
    training: Mapping[str, Any],
    **job: Any,
) -> None:
    """Train until the end of a segment; the last one writes the network.

    Parameters
    ----------
    pixels : Path
        CSV with a row for each pixel.
    facts : Path
        JSON that says what the picture is, see ``resize.py``.
    field, training : mapping
        Settings of the network and of its training.
    **job
        See `training_job.teach`.
    """
    teach(partial(read_task, pixels, facts, field, training), training=training, **job)


def read_task(
    pixels: Path, facts: Path, field: Mapping[str, Any], training: Mapping[str, Any]
) -> PictureTask | UpscalingTask:
    """A picture as a table, and what is known of it, as something to be taught; see `main`."""
    about = read_facts(facts)
    own, settings = settings_for(about, field, training)
    with made_by_the_workflow(pixels):
        values = read_pixel_csv(pixels)
    task = picture_task(values, about["source"]["mode"], own, settings)
    require_picture(pixels, task.picture, about, facts)
    return task


if __name__ == "__main__":
    from entry.job import run_job

    outputs = {name: Path(path) for name, path in snakemake.output.items()}
    training = snakemake.config["fields"][snakemake.wildcards.field]["training"]
    run_job(
        main,
        snakemake,
        pixels=Path(snakemake.input.pixels),
        facts=Path(snakemake.input.facts),
        field=snakemake.params.field,
        training=training,
        state=Path(snakemake.params.state),
        threads=snakemake.threads,
        name=", ".join(
            snakemake.wildcards[key]
            for key in ("image", "field", "tile")
            if key in snakemake.wildcards.keys()  # noqa: SIM118
        ),
        segment=int(snakemake.wildcards.get("segment", training["segments"])),
        earlier_segment=next(map(Path, snakemake.input.earlier), None),
        **outputs,
    )
