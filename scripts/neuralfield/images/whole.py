"""Checks that a file contains all the pixels that its header announces.

Without these checks, Pillow returns black or grey pixels if the data of a PNG, JPEG or TIFF ends
early, and black pixels for an index beyond the palette.
"""

import math
from pathlib import Path

import numpy as np
from PIL import Image, TiffImagePlugin

from neuralfield.images.vips import only_loaders

_LOADERS = {"PNG": "Png", "JPEG": "Jpeg", "MPO": "Jpeg", "AVIF": "Heif"}
"""The formats for which libvips detects missing data, with the names of its loaders."""

_TOO_SHORT = "the file has too little data for its width and height"


def require_whole_before(image: Image.Image, path: str, file_bytes: int) -> None:
    """Raise `OSError` for an opened image with too little data, before it is decoded."""
    if isinstance(image, TiffImagePlugin.TiffImageFile):
        _require_whole_tiff(image, file_bytes)
    elif image.format in _LOADERS:
        require_whole_by_vips(path, image.format)


def require_palette(image: Image.Image) -> None:
    """Raise `OSError` for a decoded image with an index beyond its palette."""
    if image.mode in ("P", "PA") and image.palette is not None:
        colours = len(image.palette.palette) // len(image.palette.mode)
        largest = int(np.asarray(image.getchannel(0) if image.mode == "PA" else image).max())
        if largest >= colours:
            raise OSError(f"index {largest} of a palette of {colours} colours")


def _require_whole_tiff(image: TiffImagePlugin.TiffImageFile, file_bytes: int) -> None:
    tags = image.tag_v2
    for starts, counts in ((273, 279), (324, 325)):  # the tags of strips and of tiles
        parts = zip(tags.get(starts, ()), tags.get(counts, ()), strict=False)
        if any(start + count > file_bytes for start, count in parts):
            raise OSError("the file ends before the image does")
    if 273 in tags:
        width, height = tags[256], tags[257]  # as stored; Pillow's are those of the upright image
        rows = min(tags.get(278, height), height)
        planes = tags.get(277, 1) if tags.get(284) == 2 else 1
        strips = math.ceil(height / max(rows, 1)) * planes
        bits = sum(tags.get(258, (1,)))
        counts = tags.get(279, ())
        is_plain = tags.get(259, 1) == 1 and 530 not in tags  # neither compressed nor subsampled
        plain_bytes = math.ceil(width * bits / 8) * height
        if len(tags[273]) < strips or (is_plain and counts and sum(counts) < plain_bytes):
            raise OSError(_TOO_SHORT)


def require_whole_by_vips(path: str, format: str) -> None:
    """Decode a PNG, JPEG or AVIF, and raise `OSError` if it has too little data."""
    import pyvips

    only_loaders(_LOADERS[format])
    level = "warning" if _LOADERS[format] == "Jpeg" else "truncated"
    try:
        image = pyvips.Image.new_from_file(str(Path(path)), access="sequential", fail_on=level)
        image.crop(0, image.height - 1, image.width, 1).avg()
    except pyvips.Error as error:
        reason = str(error)
        # other warnings about JPEGs are common, and do not concern pixels
        missing = ("premature end", "Premature end", "libpng read error", "Decoded image does not")
        if any(text in reason for text in missing):
            raise OSError(_TOO_SHORT) from error
