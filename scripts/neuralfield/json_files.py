"""Reading the JSON files that rules hand to one another."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from neuralfield.errors import InputError
from neuralfield.files import read_whole

_LARGEST_BYTES = 16 << 20
_REMEDY = "remove it, and run the same command again: it is made anew"


def read_json(path: Path, keys: Iterable[str] = ()) -> dict[str, Any]:
    """Read a JSON file that holds an object.

    Parameters
    ----------
    path : Path
    keys : iterable of str
        What has to be in it.

    Raises
    ------
    InputError
        The file is missing, damaged, or lacks a key.
    """
    expected = "a JSON file written by neuralfield"
    try:
        content = json.loads(read_whole(path, _LARGEST_BYTES))
    except OSError as error:
        found = f"cannot be read ({error.strerror})"
        raise InputError(str(path), found, expected, _REMEDY) from error
    except (ValueError, RecursionError) as error:
        found = f"is damaged ({type(error).__name__}: {error})"
        raise InputError(str(path), found, expected, _REMEDY) from error
    missing = [key for key in keys if not isinstance(content, dict) or key not in content]
    if missing or not isinstance(content, dict):
        raise InputError(str(path), f"lacks {', '.join(missing)}", expected, _REMEDY)
    return content
