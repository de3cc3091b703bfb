"""The networks of a config, for the benchmarks that say how good they are."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from config.configuration import read_settings
from config.presets import PRESETS
from entry.image_network import with_detail_share, with_output
from measuring.images import PHOTO
from neuralfield.images import Picture
from neuralfield.images.facts import is_line_art
from neuralfield.tasks.training_settings import of_the_training


class ConfigNetworks:
    """Networks as a config has them.

    Parameters
    ----------
    config : mapping
        As it is written, with at least one picture; files that it names have to be there.
    source : str
        Where it comes from, for messages.
    chosen : list of str, optional
        Names of networks; None: all.
    """

    def __init__(self, config: Mapping[str, Any], source: str, chosen: list[str] | None) -> None:
        self._fields = read_settings(config, lambda place: source)["fields"]
        self.names = chosen or list(self._fields)
        for name in self.names:
            if name not in self._fields:
                sys.exit(f"{name}: not among the fields of {source}: {', '.join(self._fields)}")

    @classmethod
    def chosen(cls, arguments: argparse.Namespace) -> "ConfigNetworks":
        """What the options of `add_options` name."""
        if arguments.preset:
            config = {"preset": arguments.preset, "images": {"savannah": {"path": str(PHOTO)}}}
            return cls(config, f"preset {arguments.preset}", None)
        config = yaml.safe_load(arguments.config.read_text())
        return cls(config, str(arguments.config), arguments.fields)

    @staticmethod
    def add_options(parser: argparse.ArgumentParser, config: Path) -> None:
        """Let the command line choose; `config` is the default."""
        parser.add_argument("--config", type=Path, default=config)
        parser.add_argument("--fields", nargs="+", help="names in the config; default: all")
        parser.add_argument("--preset", choices=PRESETS, help="this one, and no config")

    def settings(self, name: str, taught: Picture) -> tuple[dict[str, Any], dict[str, Any]]:
        """A network for a picture, and how it is trained."""
        field = dict(self._fields[name])
        kind = is_line_art(taught)
        training = with_detail_share(of_the_training(field.pop("training")), kind)
        return with_output(field, kind, taught.mode, training["loss"]), training
