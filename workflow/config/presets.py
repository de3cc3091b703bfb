"""Networks for a purpose, whose settings were measured: the files in presets/, a network each."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

_FOLDER = Path(__file__).parents[1] / "presets"

PRESETS = tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))


def adopt_preset(written: dict[str, Any]) -> bool:
    """Put the network that ``preset`` names in place of those listed under ``fields``.

    It is fitted to every image, and alone: sweeps, which start from those fields, are left out. A
    name that is none of `PRESETS` is left for the schema to refuse. Returns whether there is one.
    """
    name = written.get("preset")
    if name not in PRESETS:
        return False
    written["fields"] = {name: yaml.safe_load((_FOLDER / f"{name}.yaml").read_text("utf-8"))}
    images = written.get("images")
    for image in images.values() if isinstance(images, Mapping) else ():
        if isinstance(image, dict):
            image.pop("fields", None)
    written.pop("sweeps", None)
    del written["preset"]
    return True
