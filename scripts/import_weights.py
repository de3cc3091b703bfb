"""Make a model out of weights in the format of the original lion-cub program."""

from pathlib import Path

from entry.job import run_job
from neuralfield.images import read_facts
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.image.model_json import import_model_json


def main(weights: Path, facts: Path, model: Path) -> None:
    """Write imported weights, a ``model.json``, as the model of an image."""
    about = read_facts(facts)
    width, height = about["resized"]["width"], about["resized"]["height"]
    network, settings, shape, record = import_model_json(weights, width, height)
    record["picture"] = about["resized"].get("digest")
    Model(settings, shape, about["source"]["mode"], network.arrays, record).write(model)


if __name__ == "__main__":
    run_job(main)
