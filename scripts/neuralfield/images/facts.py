"""What is known of a picture besides its pixels: ``picture.json``, written beside resized.png.

Among it is a digest of the values that networks are taught, so that a damaged or swapped table or
network is found out before anything is made of it.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from neuralfield.errors import InputError
from neuralfield.files import write_atomically
from neuralfield.images.kind import is_line_art
from neuralfield.images.picture import CHANNELS, Picture
from neuralfield.json_files import read_json

_REMEDY = "remove it, and run the same command again: it is made anew"


def picture_digest(values: np.ndarray) -> str:
    """SHA-256 of a picture's values and shape, in hexadecimal.

    Parameters
    ----------
    values : ndarray of float32, shape (height, width, channels)
    """
    digest = hashlib.sha256(json.dumps(list(values.shape)).encode())
    digest.update(np.ascontiguousarray(values, "<f4").data)
    return digest.hexdigest()


def write_facts(
    path: Path, source: Picture, resized: Picture, *, of_line_art: bool | None = None
) -> None:
    """Write what a picture was, and what it has become.

    Parameters
    ----------
    path : Path
    source, resized : Picture
    of_line_art : bool, optional
        What to write of that: a tile is of the kind of its whole picture. Default: as it looks.
    """
    kind = is_line_art(resized) if of_line_art is None else of_line_art
    seen = {"is_line_art": kind, "digest": picture_digest(resized.values())}
    facts = {"source": _described(source), "resized": _described(resized) | seen}
    write_atomically(path, (json.dumps(facts, indent=2) + "\n").encode())


def read_facts(path: Path) -> dict[str, dict[str, Any]]:
    """Read what `write_facts` wrote.

    Returns
    -------
    dict
        ``source`` and ``resized``, each with ``mode``, ``width``, ``height`` (in pixels) and
        ``bit_depth``; ``resized`` with ``is_line_art`` and ``digest`` too, unless an earlier
        version wrote it.

    Raises
    ------
    InputError
        The file is missing or damaged.
    """
    facts = read_json(path, ("source", "resized"))
    for about in (facts["source"], facts["resized"]):
        found = about if isinstance(about, dict) else {}
        sides = [found.get(key) for key in ("width", "height")]
        whole = all(type(side) is int and side > 0 for side in sides)
        if str(found.get("mode")) not in CHANNELS or found.get("bit_depth") not in (1, 8, 16):
            raise _damaged(path, found)
        if not whole or (found["mode"] == "bilevel") != (found["bit_depth"] == 1):
            raise _damaged(path, found)
    return facts


def require_picture(where: Path, digest: str | None, facts: dict[str, dict[str, Any]]) -> None:
    """Refuse what is not of the picture that the facts are of.

    Parameters
    ----------
    where : Path
        The file it comes from, for the message.
    digest : str or None
        `picture_digest` of its values; None where nobody noted it.
    facts : dict
        See `read_facts`; without a digest, anything is accepted.

    Raises
    ------
    InputError
    """
    noted = facts["resized"].get("digest")
    if digest is not None and noted is not None and digest != noted:
        found = "is damaged, or belongs to another picture"
        raise InputError(str(where), found, "what picture.json beside resized.png notes", _REMEDY)


def _described(picture: Picture) -> dict[str, Any]:
    return {
        "mode": picture.mode,
        "width": picture.width,
        "height": picture.height,
        "bit_depth": picture.bit_depth,
    }


def _damaged(path: Path, found: object) -> InputError:
    return InputError(str(path), f"holds {found}", "a picture's mode and size", _REMEDY)
