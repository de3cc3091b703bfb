"""The networks of a config, for the benchmarks that say how good they are."""

import sys
from pathlib import Path
from typing import Any

import yaml

from configuration import read_settings
from neuralfield.images import Picture
from train import with_output
from training_job import of_the_training


class ConfigNetworks:
    """The section `fields` of a config.

    Parameters
    ----------
    path : Path
        The pictures that it names have to be there, too.
    chosen : list of str, optional
        Names of networks; None: all.
    """

    def __init__(self, path: Path, chosen: list[str] | None) -> None:
        settings = read_settings(yaml.safe_load(path.read_text()), lambda place: str(path))
        self._fields = settings["fields"]
        self.names = chosen or list(self._fields)
        for name in self.names:
            if name not in self._fields:
                sys.exit(f"{name}: not in the section fields of {path}: {', '.join(self._fields)}")

    def settings(self, name: str, taught: Picture) -> tuple[dict[str, Any], dict[str, Any]]:
        """A network for a picture, and how it is trained."""
        field = dict(self._fields[name])
        training = of_the_training(field.pop("training"))
        return with_output(field, taught.values(), taught.mode, training["loss"]), training
