"""Reading the JSON files that rules hand to one another."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from neuralfield.system.errors import InputError
from neuralfield.system.files import read_whole
from neuralfield.system.provenance import remedy_for

_LARGEST_BYTES = 16 << 20


def read_json(
    path: Path, keys: Iterable[str] = (), own: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Read a JSON file that holds an object.

    Parameters
    ----------
    path : Path
    keys : iterable of str
        What has to be in it.
    own : mapping, optional
        Values that it has to have to belong where it lies: ``{"image": "cub"}``.

    Raises
    ------
    InputError
        The file is missing, damaged, lacks a key, or belongs elsewhere.
    """
    expected = "a JSON file written by neuralfield"
    try:
        content = json.loads(read_whole(path, _LARGEST_BYTES))
    except OSError as error:
        found = f"cannot be read ({error.strerror})"
        raise InputError(str(path), found, expected, remedy_for(path)) from error
    except (ValueError, RecursionError) as error:
        found = f"is damaged ({type(error).__name__}: {error})"
        raise InputError(str(path), found, expected, remedy_for(path)) from error
    needed = [*keys, *(own or ())]
    missing = [key for key in needed if not isinstance(content, dict) or key not in content]
    if missing or not isinstance(content, dict):
        raise InputError(str(path), f"lacks {', '.join(missing)}", expected, remedy_for(path))
    for key, value in (own or {}).items():
        if content[key] != value:
            found, expected = f"has the {key} {content[key]!r}", f"the {key} {value!r}"
            raise InputError(str(path), found, expected, remedy_for(path))
    return content
