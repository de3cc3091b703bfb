"""The networks of a config, for benchmarks that measure their fit."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from config.configuration import read_settings
from measuring.images import PHOTO
from neuralfield.images import ImageData
from neuralfield.images.kind import kind_of
from neuralfield.tasks.image.presets import PRESETS
from neuralfield.tasks.image_fit import with_choices_for, with_output
from neuralfield.tasks.training_settings import of_the_training


class ConfigNetworks:
    """The networks of a config, with the training settings of each.

    Parameters
    ----------
    config : mapping
        A config as a user would write it, with at least one image; its files have to exist.
    source : str
        Where the config comes from, for messages.
    chosen : list of str, optional
        Names of networks; None chooses all.
    """

    def __init__(self, config: Mapping[str, Any], source: str, chosen: list[str] | None) -> None:
        self._fields = read_settings(config, lambda place: source)["fields"]
        self.names = chosen or list(self._fields)
        for name in self.names:
            if name not in self._fields:
                sys.exit(f"{name}: not among the fields of {source}: {', '.join(self._fields)}")

    @classmethod
    def chosen(cls, arguments: argparse.Namespace) -> "ConfigNetworks":
        """Return the networks that the options of `add_options` name."""
        if arguments.preset:
            config = {"preset": arguments.preset, "images": {"savannah": {"path": str(PHOTO)}}}
            return cls(config, f"preset {arguments.preset}", None)
        config = yaml.safe_load(arguments.config.read_text())
        return cls(config, str(arguments.config), arguments.fields)

    @staticmethod
    def add_options(parser: argparse.ArgumentParser, config: Path) -> None:
        """Add options that choose networks; `config` is the default file."""
        parser.add_argument(
            "--config", type=Path, default=config, help="YAML file with the networks"
        )
        parser.add_argument("--fields", nargs="+", help="names in the config; all if not given")
        parser.add_argument(
            "--preset", choices=PRESETS, help="networks of a preset, in place of a config"
        )

    def settings(self, name: str, image: ImageData) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the settings of a network for an image, and those of its training."""
        field = dict(self._fields[name])
        kind = kind_of(image)
        training = with_choices_for(kind, of_the_training(field.pop("training")))
        return with_output(field, kind, image.mode, training["loss"]), training
