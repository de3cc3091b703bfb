"""Teach a network a picture: a whole training, or one segment of it."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuralfield.fields import network_settings
from neuralfield.images import read_facts, read_pixel_csv, require_picture
from neuralfield.picture_task import PictureTask
from neuralfield.training import PictureTraining
from neuralfield.upscaling_task import UpscalingTask, picture_task
from training_job import of_the_training, teach

if TYPE_CHECKING:
    from job import snakemake


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
    mode, is_line_art = about["source"]["mode"], about["resized"].get("is_line_art", False)
    own = network_settings(with_output(field, is_line_art, mode, training["loss"]))
    chosen = with_detail_share(of_the_training(training), is_line_art)
    settings = PictureTraining.from_mapping(chosen)
    task = picture_task(read_pixel_csv(pixels).values, mode, own, settings)
    require_picture(pixels, task.picture, about)
    return task


def with_output(
    field: Mapping[str, Any], is_line_art: bool, mode: str, loss: str
) -> dict[str, Any]:
    """A field's settings with its output chosen.

    Line art wants steep edges, and binary cross-entropy wants probabilities.
    """
    if field.get("output") != "auto":
        return dict(field)
    is_steep = mode == "bilevel" or loss == "binary_cross_entropy" or is_line_art
    return {**field, "output": "sigmoid" if is_steep else "linear"}


def with_detail_share(training: Mapping[str, Any], is_line_art: bool) -> dict[str, Any]:
    """Return the settings of a training with a `detail_share` that is a number.

    In line art all that counts is at the edges; a photograph has detail everywhere.
    """
    if training.get("detail_share") != "auto":
        return dict(training)
    return {**training, "detail_share": 0.5 if is_line_art else 0.0}


if __name__ == "__main__":
    from job import run_job

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
