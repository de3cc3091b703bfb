"""A preset in place of the networks of config.yaml."""

from collections.abc import Mapping
from typing import Any

from neuralfield.tasks.image.presets import PRESETS, read_preset


def adopt_preset(written: dict[str, Any]) -> str | None:
    """Put the network that ``preset`` names in place of those listed under ``fields``.

    It is fitted to every image, and alone: sweeps, which start from those fields, are left out.
    A name that is none of `PRESETS` is left for the schema to refuse. Returns the name, if
    there is one.
    """
    name = written.get("preset")
    if name not in PRESETS:
        return None
    written["fields"] = {name: read_preset(name)}
    images = written.get("images")
    for image in images.values() if isinstance(images, Mapping) else ():
        if isinstance(image, dict):
            image.pop("fields", None)
    written.pop("sweeps", None)
    del written["preset"]
    return name
