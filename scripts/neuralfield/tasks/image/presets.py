"""Networks for a purpose, with measured settings; each file in presets/ is a network."""

from pathlib import Path
from typing import Any

from neuralfield.images.kind import Kind

_FOLDER = Path(__file__).parents[2] / "presets"

PRESETS = tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))

FIT_PRESETS = tuple(name for name in PRESETS if name != "small")
"""The presets of networks that are rendered at any size; `small` codes an image in few bits."""

SUITABLE = {
    Kind.LINE_ART: ("line art, because nearly all of it is black or white", "line_art"),
    Kind.GREY_LINES: ("grey lines, because nearly all of it is paper and lines", "line_art"),
    Kind.MIXED: (
        "a page of mixed kind, because it has a background of paper, but also many other tones",
        "quality",
    ),
    Kind.PHOTOGRAPH: ("a photograph, because little of it is paper or ink", "quality"),
}
"""A description of each kind of image, and the preset that suits it."""


def read_preset(name: str) -> dict[str, Any]:
    """Read a preset: a network as under ``fields`` in ``config.yaml``, with its ``training``."""
    import yaml  # imported here, because only presets need it

    return yaml.safe_load((_FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
