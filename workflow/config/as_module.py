"""The settings of a workflow that has this one as a module: the dictionary that it hands over."""

from collections.abc import Mapping
from typing import Any

from config.precedence import shipped_settings
from config.wording import Place

_EXAMPLES = ("images", "sweeps", "tables", "classifiers")


def completed(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with the sections of the workflow's own config.yaml that are left out.

    Its examples are not among them: what is fitted is what the other workflow names.
    """
    usual = {key: value for key, value in shipped_settings().items() if key not in _EXAMPLES}
    return {**usual, **config}


def name_source(place: Place) -> str:
    """Return where a setting was written, for messages."""
    return "config of the module neuralfield"
