"""Networks for a purpose, with measured settings; each file in presets/ is a network."""

from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parents[2] / "presets"

PRESETS = tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))


def read_preset(name: str) -> dict[str, Any]:
    """Read a preset: a network as under ``fields`` in ``config.yaml``, with its ``training``."""
    import yaml  # imported here, because only presets need it

    return yaml.safe_load((_FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
