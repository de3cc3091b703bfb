"""Reading the trained network of an image, which has to be the one that the settings describe."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from entry.records import read_record
from neuralfield.fields import FieldSettings, ImageShape
from neuralfield.images import ImageData, read_facts, require_image
from neuralfield.images.image import CHANNELS
from neuralfield.images.image_facts import facts_of_tile
from neuralfield.system.provenance import require_finished, require_same_training
from neuralfield.system.settings import settings_of
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.image.mosaic import Mosaic, Trained, load_trained
from neuralfield.tasks.image_fit import settings_for_facts
from neuralfield.tasks.training_settings import BUDGETS, ImageTraining

Settings = Mapping[str, Any]


def read_own(path: Path, facts_path: Path, field: Settings, training: Settings) -> Trained:
    """Read the finished network of an image, or of all its tiles, in order to measure it.

    `facts_path` is the JSON that describes the image, see ``resize.py``; `field` and `training` are
    the settings, and the latter are empty for an imported network. A network of another image or
    training is refused. Of a mosaic, only the first network is checked, because the mosaic has the
    checksums of the others.
    """
    network, facts = load_trained(path), read_facts(facts_path)
    if isinstance(network, Mosaic):
        tile = network.tiling.tile(0, 0)
        own, path, facts = network.load(tile), network.path(tile), facts_of_tile(facts, tile)
        shape = own.shape
    else:
        own, about = network, facts["resized"]
        require_image(path, own.metadata.get("picture"), facts, facts_path)
        shape = ImageShape(about["width"], about["height"], CHANNELS[about["mode"]])
    if training:
        expected, how = _settings_of(own, facts, field, training)
        record = {
            "picture": own.metadata.get("picture"),
            "training": how.described(),
            "footprint": how.supervision == "footprint",
        }
        model = Model(expected, shape, facts["source"]["mode"], {}, record)
        whose = "the network that the settings describe"
        require_same_training(path, own.provenance, model.provenance, whose)
        require_finished(path, own.metadata, how.steps)
    return network


def read_coded(path: Path, facts_path: Path) -> ImageData:
    """Decode a coded image, which has to be that of the image that `facts_path` describes."""
    # imported here, because it imports Numba, which takes time
    from neuralfield.api.decoding import content_of, decoded

    record = read_record(path.with_name("training.json"), path)
    require_image(path, record.get("picture"), read_facts(facts_path), facts_path)
    return decoded(*content_of(path))


def _settings_of(
    network: Model, facts: Mapping[str, dict[str, Any]], field: Settings, training: Settings
) -> tuple[FieldSettings, ImageTraining]:
    """Return the settings, with the network's steps and batch size if a budget chose them."""
    settings = settings_for_facts(facts, field, training)
    own = network.metadata.get("training")
    if not isinstance(own, Mapping) or not any(name in training for name in BUDGETS):
        return settings
    rules = settings_of(ImageTraining)
    steps, batch_pixels = own.get("steps", 0), own.get("batch_pixels", -1)
    if not (rules["steps"].allows(steps) and rules["batch_pixels"].allows(batch_pixels)):
        return settings
    changes = settings[1].changes_for(steps, batch_pixels)
    fewer = settings[1].changes_for_smaller_batches()
    if fewer and fewer.items() <= own.items():
        changes |= fewer
    return settings_for_facts(facts, field, {**training, **changes})
