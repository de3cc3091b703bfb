"""Reading the trained network of an image, which has to be the one that the settings describe."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from neuralfield.fields import FieldSettings, ImageShape
from neuralfield.images import ImageData, image_digest, read_facts, read_made_image, require_image
from neuralfield.images.image import CHANNELS, MODES
from neuralfield.images.image_facts import facts_of_tile
from neuralfield.images.tiling import Tile
from neuralfield.system.device import to_host
from neuralfield.system.errors import CheckpointError
from neuralfield.system.provenance import remedy_for, require_finished, require_same_training
from neuralfield.system.settings import settings_of
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.image.model_json import import_model_json
from neuralfield.tasks.image.mosaic import Mosaic, Trained, load_trained
from neuralfield.tasks.image_fit import settings_for_facts
from neuralfield.tasks.training_settings import BUDGETS, ImageTraining

_EXPECTED = "the network that the settings describe"


@dataclass(frozen=True)
class ExpectedNetwork:
    """The network of an image that the settings describe."""

    facts_path: Path  # JSON that describes the image, see ``resize.py``
    # settings of the network and of its training; an imported network has none of the latter
    field: Mapping[str, Any]
    training: Mapping[str, Any]
    facts_of_tile: Mapping[str, dict[str, Any]] | None = None
    """Facts about a tile, which replace those in the file if the network is that of a tile."""

    @classmethod
    def of_job(cls, job: Any) -> Self:
        """Create it for a job with the input `facts` and the params `field` and `training`."""
        return cls(Path(job.input.facts), job.params.field, job.params.training)

    @cached_property
    def facts(self) -> dict[str, dict[str, Any]]:
        return dict(self.facts_of_tile or read_facts(self.facts_path))

    def of_tile(self, tile: Tile) -> Self:
        return replace(self, facts_of_tile=facts_of_tile(self.facts, tile))

    @cached_property
    def settings(self) -> tuple[FieldSettings, ImageTraining]:
        return settings_for_facts(self.facts, self.field, self.training)

    @property
    def steps(self) -> int | None:
        """The number of steps of the training; None for an imported network."""
        return self.training["steps"] if self.training else None

    def load(self, path: Path) -> Trained:
        """Read the finished network of the image, or of all its tiles; refuse any other network."""
        network = load_trained(path)
        if isinstance(network, Mosaic):
            first = network.tiling.tile(0, 0)
            tile = network.load(first)
            self.with_steps_of(tile).require_own(network.path(first), tile, is_tile=True)
        else:
            self.with_steps_of(network).require_own(path, network)
        return network

    def with_steps_of(self, network: Trained) -> Self:
        """Return a copy with the steps and the batch size of `network`, if a budget chose them."""
        own = network.metadata.get("training")
        if not isinstance(own, Mapping) or not any(name in self.training for name in BUDGETS):
            return self
        rules = settings_of(ImageTraining)
        steps, batch_pixels = own.get("steps", 0), own.get("batch_pixels", -1)
        if not (rules["steps"].allows(steps) and rules["batch_pixels"].allows(batch_pixels)):
            return self
        expected = self.settings[1]
        changes = expected.changes_for(steps, batch_pixels)
        fewer = expected.changes_for_smaller_batches()
        if fewer and fewer.items() <= own.items():
            changes |= fewer
        return replace(self, training={**self.training, **changes})

    def require_own(self, path: Path, network: Model, *, is_tile: bool = False) -> None:
        """Refuse a network of another image, field or training.

        The image is not checked for the network of a tile, which has no record of its image.
        """
        digest = network.metadata.get("picture")
        if not is_tile:
            require_image(path, digest, self.facts, self.facts_path)
        if not self.training:
            self._require_imported(path, network)
            return
        field, training = self.settings
        about = self.facts["resized"]
        shape = ImageShape(about["width"], about["height"], CHANNELS[about["mode"]])
        if is_tile:
            shape = network.shape
        is_footprint = training.supervision == "footprint"
        record = {"picture": digest, "training": training.described(), "footprint": is_footprint}
        expected = Model(field, shape, self.facts["source"]["mode"], {}, record)
        require_same_training(path, network.provenance, expected.provenance, _EXPECTED)
        require_finished(path, network.metadata, training.steps)

    def _require_imported(self, path: Path, network: Model) -> None:
        weights = Path(self.field["path"])
        imported, settings, _, _ = import_model_json(weights, network.width, network.height)
        arrays = {name: to_host(array) for name, array in imported.arrays.items()}
        is_own = settings == network.settings and all(
            np.array_equal(network.arrays[name], array) for name, array in arrays.items()
        )
        if not is_own:
            found = f"does not hold the weights of {weights}"
            raise CheckpointError(str(path), found, _EXPECTED, remedy_for(path))


def read_training_image(path: Path, network: Model, expected: ExpectedNetwork | None) -> ImageData:
    """Read the image that a network was trained on; refuse an image other than the expected one."""
    # reducing a black-and-white source may yield greys, so the network's channels give the mode
    image = read_made_image(path, MODES[network.channels])
    if expected:
        require_image(path, image_digest(image.values()), expected.facts, expected.facts_path)
    return image
