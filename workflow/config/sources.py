"""Where settings were written, for messages and for rules of precedence."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Place = tuple[str | int, ...]
"""The path to a value: keys of mappings and indices of lists, from the top level."""

WhereIs = Callable[[Place], str]
"""A function that returns the beginning of a message, the source and the place of a setting."""

BESIDE_IMAGE = ("size", "mode", "threshold", "filter", "page", "restore", "tiles")
"""Settings of an image that may be given beside ``image``; so may its ``name``."""

_HAS_FILES = any(word.startswith("--configfile") for word in sys.argv)
COMMAND_LINE = "--configfile or --config" if _HAS_FILES else "--config"


@dataclass(frozen=True)
class Sources:
    """The config file, and the settings that the command line sets over those of the file."""

    file: str = "config.yaml"
    given: Mapping[str, Any] = field(default_factory=dict)
    has_own_image: bool = False  # whether `image` was given instead of `images`

    def sets(self, *place: str | int) -> bool:
        """Check whether the command line sets a value."""
        return at(self.given, place) is not None

    def where(self, place: Place) -> str:
        """Return the source and the place of a value: ``config.yaml: images.cub.size``."""
        if self.has_own_image and place[0] == "images":
            *_, key = place
            place = ("name",) if len(place) < 3 else (key,) if key in BESIDE_IMAGE else ("image",)
        # a missing key is reported for the source that has its neighbouring keys
        is_given = any(self.sets(*wanted) for wanted in (place, place[:-1]) if wanted)
        return f"{COMMAND_LINE if is_given else self.file}: {'.'.join(map(str, place))}"


ONE_FILE = Sources()
"""A config.yaml, over which the command line sets nothing."""


def at(content: Any, place: Place) -> Any:
    """Return the value at a place; None if there is none."""
    for step in place:
        try:
            content = content[step]
        except (KeyError, IndexError, TypeError):
            return None
    return content


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a value if it is a mapping, otherwise an empty one."""
    return value if isinstance(value, Mapping) else {}
