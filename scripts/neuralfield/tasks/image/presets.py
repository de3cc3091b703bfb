"""Networks for a purpose, whose settings were measured: the files in presets/, a network each."""

from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parents[2] / "presets"

PRESETS = tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))


def read_preset(name: str) -> dict[str, Any]:
    """Read the network of a preset as it would stand under ``fields``, with its ``training``."""
    import yaml  # imported here, because only presets need it

    return yaml.safe_load((_FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
