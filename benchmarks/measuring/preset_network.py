"""A preset or a network of a config with changed settings, as given on a command line."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from measuring import ROOT
from measuring.field_runs import ImagePair, fit_and_render
from neuralfield.fields import FIELDS, field_settings
from neuralfield.images import ImageData
from neuralfield.images.kind import kind_of
from neuralfield.system.device import Device
from neuralfield.system.settings import settings_of
from neuralfield.tasks.image.presets import PRESETS, read_preset
from neuralfield.tasks.image_fit import with_choices_for, with_output
from neuralfield.tasks.training_settings import ImageTraining, of_the_training

CONFIG = ROOT / "config.yaml"


@dataclass(frozen=True, eq=False)
class PresetNetwork:
    """A network as given on the command line, like ``quality steps=500``."""

    text: str
    field: dict[str, Any]
    training: dict[str, Any]

    @classmethod
    def read(cls, text: str, config: Path = CONFIG) -> "PresetNetwork":
        """Parse the name of a preset, of a network of a config or of a type, and its changes."""
        name, *changes = text.split()
        network = _network(name, config)
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
        field = {"output": "auto", **self.field}
        return with_output(field, kind, image.mode, training.get("loss", "mse")), training

    def renders(
        self, pair: ImagePair, device: Device, threads: int, seeds: int = 1, **changes: Any
    ) -> tuple[list[np.ndarray], float]:
        """Train with each random seed; return the renders, and the seconds of all steps.

        The values of a render are float32, shape (height, width, channels). `changes` are further
        settings of the training. A training that diverges ends the program.
        """
        field, training = self.settings(pair.small)
        found = []
        for seed in range(seeds):
            of_seed = {**training, **changes, "random_seed": seed}
            found.append(fit_and_render(pair, field, of_seed, device, "auto", threads))
            if found[-1].values is None:
                sys.exit(f"{self.text}: diverged with seed {seed}")
        renders = [one.values for one in found if one.values is not None]
        return renders, sum(one.seconds for one in found)


def _network(name: str, path: Path) -> dict[str, Any]:
    if name in PRESETS:
        return read_preset(name)
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    network = config["fields"].get(name, {"type": name})
    if network["type"] not in FIELDS:
        known = ", ".join(dict.fromkeys([*PRESETS, *config["fields"], *FIELDS]))
        sys.exit(f"{name}: no such network; expected one of {known}")
    training = config.get("training", {}) | network.get("training", {})
    return network | {"training": {"detail_share": "auto"} | training}
