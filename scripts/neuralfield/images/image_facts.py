"""Metadata of an image, its "facts": the file ``picture.json`` in the folder of resized.png.

They include the image's kind, a digest of the values that networks are trained on, and a checksum
of the file itself. The digest reveals a damaged or swapped table or network before it is used.
"""

import contextlib
import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from neuralfield.images.image import CHANNELS, ImageData
from neuralfield.images.image_file import read_image
from neuralfield.images.kind import Kind, kind_of
from neuralfield.images.pixel_file import PixelFile
from neuralfield.images.pixel_table import read_pixel_csv
from neuralfield.images.tiling import Tile
from neuralfield.system.checkpoint import load_arrays
from neuralfield.system.errors import InputError, NeuralfieldError
from neuralfield.system.files import write_json
from neuralfield.system.input_files import read_json
from neuralfield.system.provenance import json_digest, made_by_the_workflow, remedy_for

_ROWS = 128
"""Number of rows of a tile that are read at a time."""


def image_digest(values: np.ndarray) -> str:
    """Return the SHA-256 of an image's values and shape, in hexadecimal.

    `values` is float32, shape (height, width, channels).
    """
    return _digest(values.shape, [values])


def tile_digest(pixels: PixelFile, tile: Tile) -> str:
    """Return the `image_digest` of a tile of an image."""
    shape = (tile.height, tile.width, CHANNELS[pixels.mode])
    return _digest(shape, (rows.values() for rows in pixels.bands(tile.edges, _ROWS)))


def facts_of_tile(facts: Mapping[str, dict[str, Any]], tile: Tile) -> dict[str, dict[str, Any]]:
    """Return the facts about a tile, as about an image of its own, given those about the image."""
    described = facts["resized"] | {"width": tile.width, "height": tile.height}
    digest = facts.get("tiles", {}).get(tile.name)
    return {"source": described, "resized": described | ({"digest": digest} if digest else {})}


def write_facts(
    path: Path, source: ImageData, resized: ImageData, kind: Kind | None = None
) -> None:
    """Write the facts about an image before and after resizing; by default with its own kind."""
    seen = kind_facts(kind or kind_of(resized)) | {"digest": image_digest(resized.values())}
    save_facts(path, {"source": _described(source), "resized": _described(resized) | seen})


def kind_facts(kind: Kind) -> dict[str, Any]:
    """Return the facts about the kind of an image; `kind_in` reads them."""
    named = {"kind": str(kind)} if kind in (Kind.GREY_LINES, Kind.MIXED) else {}
    return {"is_line_art": kind == Kind.LINE_ART} | named


def kind_in(facts: Mapping[str, Mapping[str, Any]]) -> Kind:
    """Return the kind of an image from its facts; a photograph if an earlier version wrote none."""
    resized = facts["resized"]
    usual = Kind.LINE_ART if resized.get("is_line_art") else Kind.PHOTOGRAPH
    return Kind(resized.get("kind", usual))


def save_facts(path: Path, facts: dict[str, Any]) -> None:
    """Write facts about an image with their checksum."""
    write_json(path, facts | {"checksum": json_digest(facts)})


def read_facts(path: Path) -> dict[str, dict[str, Any]]:
    """Read the file that `write_facts` wrote; raises `InputError` if it is missing or damaged.

    The keys are ``source`` and ``resized``, each with ``mode``, ``width``, ``height`` (in pixels)
    and ``bit_depth``. ``resized`` also has ``is_line_art`` and ``digest``, unless an earlier
    version wrote the file, and ``kind`` for grey lines and pages of mixed kind. The facts about an
    image in tiles have the key ``tiles``, with the digest of each tile, instead of ``digest``.
    """
    facts = read_json(path, ("source", "resized", "checksum"))
    if facts.pop("checksum") != json_digest(facts):
        found = "its content does not match its checksum"
        raise InputError(str(path), found, "the facts that were written", remedy_for(path))
    for about in (facts["source"], facts["resized"]):
        found = about if isinstance(about, dict) else {}
        sides = [found.get(key) for key in ("width", "height")]
        whole = all(type(side) is int and side > 0 for side in sides)
        mode, bit_depth = str(found.get("mode")), found.get("bit_depth")
        is_known = mode in CHANNELS and bit_depth in (1, 8, 16)
        if not (whole and is_known and (mode == "bilevel") == (bit_depth == 1)):
            expected = "an image's mode and size"
            raise InputError(str(path), f"holds {found}", expected, remedy_for(path))
    return facts


def require_image(
    where: Path,
    digest: str | None,
    facts: dict[str, dict[str, Any]],
    facts_path: Path | None = None,
) -> None:
    """Raise `InputError` if values belong to an image other than that of the facts.

    `where` is the file of the values, and `digest` their digest. Nothing is checked if `digest` is
    None or the facts have none. If another file of the image has the same digest as the values, the
    facts are wrong, and the error names `facts_path`.
    """
    noted = facts["resized"].get("digest")
    if digest is not None and noted is not None and digest != noted:
        found = "is damaged, or belongs to another image"
        expected = "the image that picture.json describes"
        if facts_path and _agrees_with_others(digest, where, facts_path.parent):
            where, expected = facts_path, "a description of the files in its folder"
        raise InputError(str(where), found, expected, remedy_for(where))


def read_made_image(path: Path, mode: str = "auto") -> ImageData:
    """Read an image file of any size that the workflow made; raises `InputError`."""
    with made_by_the_workflow(path):
        return read_image(path, mode=mode, max_megapixels=math.inf)


def _agrees_with_others(digest: str, where: Path, folder: Path) -> bool:
    """Check whether another file of the image has this digest; only called for an error."""
    others = [folder / "pixels.csv", folder / "resized.png", *folder.glob("*/model.safetensors")]
    for path in others:
        with contextlib.suppress(NeuralfieldError):
            if path != where and digest in _digests(path):
                return True
    return False


def _digests(path: Path) -> Iterator[str | None]:
    """Yield the digests of the image that a file contains or was trained on."""
    if path.suffix == ".csv":
        yield image_digest(read_pixel_csv(path))
    elif path.suffix == ".png":
        for mode in ("grey", "rgb", "rgba"):  # the mode in the facts may be wrong
            yield image_digest(read_made_image(path, mode).values())
    else:
        yield load_arrays(path)[1].get("record", {}).get("picture")


def _digest(shape: Sequence[int], bands: Iterable[np.ndarray]) -> str:
    digest = hashlib.sha256(json.dumps(list(shape)).encode())
    for band in bands:
        digest.update(np.ascontiguousarray(band, "<f4").data)
    return digest.hexdigest()


def _described(image: ImageData) -> dict[str, Any]:
    return {name: getattr(image, name) for name in ("mode", "width", "height", "bit_depth")}
