"""A preset with changed settings, as it is written on a command line."""

import sys
from dataclasses import dataclass
from typing import Any

import yaml

from neuralfield.fields import network_settings
from neuralfield.system.settings import settings_of
from neuralfield.tasks.image.presets import PRESETS, read_preset
from neuralfield.tasks.training_settings import ImageTraining, of_the_training


@dataclass(frozen=True, eq=False)
class PresetNetwork:
    """A network as it is written on the command line, like ``quality steps=500``."""

    text: str
    field: dict[str, Any]
    training: dict[str, Any]

    @classmethod
    def read(cls, text: str) -> "PresetNetwork":
        """Read a preset and the settings that are changed."""
        name, *changes = text.split()
        if name not in PRESETS:
            sys.exit(f"{name}: no preset; expected one of {', '.join(PRESETS)}")
        network = read_preset(name)
        training = of_the_training(network.pop("training"))
        for change in changes:
            key, _, value = change.partition("=")
            section = training if key in settings_of(ImageTraining) else network
            section[key] = yaml.safe_load(value)
        settings = network_settings(network)
        training.setdefault("learning_rate", settings.suggested_learning_rate)
        return cls(text, network, training)
