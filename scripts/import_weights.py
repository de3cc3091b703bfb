"""Make a model out of weights in the format of the original lion-cub program."""

from pathlib import Path
from typing import TYPE_CHECKING

from neuralfield.images import read_facts
from neuralfield.tasks.image.image_model import save_model
from neuralfield.tasks.image.model_json import import_model_json

if TYPE_CHECKING:
    from entry.job import snakemake


def main(weights: Path, facts: Path, model: Path) -> None:
    """Write imported weights as a model of a picture.

    Parameters
    ----------
    weights : Path
        A ``model.json``.
    facts : Path
        JSON that says what the picture is, see ``resize.py``.
    model : Path
        safetensors to write.
    """
    about = read_facts(facts)
    width, height = about["resized"]["width"], about["resized"]["height"]
    network, settings, shape, record = import_model_json(weights, width, height)
    record["picture"] = about["resized"].get("digest")
    save_model(model, network, settings, shape, about["source"]["mode"], record)


if __name__ == "__main__":
    from entry.job import run_job

    run_job(
        main,
        snakemake,
        weights=Path(snakemake.input.weights),
        facts=Path(snakemake.input.facts),
        model=Path(snakemake.output.model),
    )
