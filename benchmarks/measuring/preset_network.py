"""A preset or a network of config.yaml with changed settings, as given on a command line."""

import sys
from dataclasses import dataclass
from typing import Any

import yaml

from measuring import ROOT
from neuralfield.fields import FIELDS, field_settings
from neuralfield.images import ImageData
from neuralfield.images.kind import kind_of
from neuralfield.system.settings import settings_of
from neuralfield.tasks.image.presets import PRESETS, read_preset
from neuralfield.tasks.image_fit import with_choices_for, with_output
from neuralfield.tasks.training_settings import ImageTraining, of_the_training


@dataclass(frozen=True, eq=False)
class PresetNetwork:
    """A network as given on the command line, like ``quality steps=500``."""

    text: str
    field: dict[str, Any]
    training: dict[str, Any]

    @classmethod
    def read(cls, text: str) -> "PresetNetwork":
        """Parse the name of a network and its changed settings."""
        name, *changes = text.split()
        network = _network(name)
        training = of_the_training(network.pop("training"))
        for change in changes:
            key, _, value = change.partition("=")
            section = training if key in settings_of(ImageTraining) else network
            section[key] = yaml.safe_load(value)
        if training.get("learning_rate", "auto") == "auto":
            settings = field_settings(network)
            training["learning_rate"] = settings.suggested_learning_rate
        return cls(text, network, training)

    def settings(self, image: ImageData) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the settings of the network for an image, and those of its training."""
        kind = kind_of(image)
        training = with_choices_for(kind, self.training)
        chosen = {"output": "auto"} if self.field["type"] in FIELDS else {}
        field = {**chosen, **self.field}
        return with_output(field, kind, image.mode, training.get("loss", "mse")), training


def _network(name: str) -> dict[str, Any]:
    if name in PRESETS:
        return read_preset(name)
    config = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    network = config["fields"].get(name, {"type": name})
    if network["type"] not in FIELDS:
        known = ", ".join(dict.fromkeys([*PRESETS, *config["fields"], *FIELDS]))
        sys.exit(f"{name}: no such network; expected one of {known}")
    return network | {"training": config["training"] | network.get("training", {})}
