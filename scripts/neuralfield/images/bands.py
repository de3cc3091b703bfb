"""Reading an image file in bands of rows from top to bottom, however large it is.

libvips decodes tiles, strips and rows on demand, and frees them after they are read.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import TiffImagePlugin

from neuralfield.images.colour import Report, conversion_of, log
from neuralfield.images.image import MODES, ImageData
from neuralfield.images.unreadable import EXPECTED, EXPORT, undecodable
from neuralfield.images.vips import embedded_profile, only_loaders, reason_of
from neuralfield.images.whole import require_whole_by_vips
from neuralfield.system.errors import InputError
from neuralfield.system.input_files import open_input

if TYPE_CHECKING:
    import pyvips

BAND_VALUES = 2**22
"""Maximum number of values in a band."""

FORMATS = ("Png", "Jpeg", "Tiff", "Webp")
"""The supported formats, as libvips names them; libvips itself reads others, such as PDF and SVG.
"""

SPACES = {"b-w": "GRAY", "grey16": "GRAY", "srgb": "RGB", "rgb16": "RGB", "cmyk": "CMYK"}
"""Colour space of each of libvips' interpretations."""

_COLOURS = {"GRAY": 1, "RGB": 3, "CMYK": 4}
"""Number of channels of each colour space."""

DTYPES = {"uchar": np.uint8, "ushort": np.uint16}


@dataclass(frozen=True)
class Header:
    """The sides and layout of an image, read without decoding pixels."""

    # sides of the upright image, in px
    width: int
    height: int
    row_by_row: bool
    """Whether rows can be decoded one after another. An interlaced PNG, a progressive JPEG or an
    image that is not stored upright has to be decoded as a whole."""


def read_header(path: str | os.PathLike) -> Header:
    """Read the sides and layout of an image from the first bytes of a file; raises `InputError`."""
    image = _opened(path)
    fields = image.get_fields()
    orientation = _orientation(image)
    interlaced = "interlaced" in fields and bool(image.get("interlaced"))
    width, height = image.width, image.height
    if orientation in (5, 6, 7, 8):
        width, height = height, width
    return Header(width, height, orientation == 1 and not interlaced)


def read_bands(path: str | os.PathLike, report: Report = log.debug) -> Iterator[np.ndarray]:
    """Yield bands of rows of the upright image from top to bottom.

    Bands are levels of sRGB: uint8 or uint16, shape (rows, width, 1, 3 or 4). Supported files are
    PNG, JPEG, TIFF and WebP: grey or RGB with or without alpha, with 1, 8 or 16 bits per channel or
    a palette; CMYK with 8 bits. Raises `InputError`; for `report` see `read_image`.
    """
    import pyvips

    image = _opened(path)
    if _orientation(image) != 1:  # rows are not read in the order in which they are stored
        image = _opened(path, access="random").autorot()
    rows = max(1, BAND_VALUES // (image.width * image.bands))
    dtype, space = DTYPES[str(image.format)], SPACES[str(image.interpretation)]
    convert = conversion_of(embedded_profile(image), space, report)
    try:
        region = pyvips.Region.new(image)
        for top in range(0, image.height, rows):
            count = min(rows, image.height - top)
            content = region.fetch(0, top, image.width, count)
            stored = np.frombuffer(content, dtype).reshape(count, image.width, image.bands)
            yield convert(stored[..., [0, 0, 0, 1]] if image.bands == 2 else stored)
    except pyvips.Error as error:
        raise undecodable(str(path), reason_of(error)) from error


def choose_mode(path: str | os.PathLike) -> str:
    """Return the simplest mode without loss, as ``auto`` of `read_image`, but read in bands."""
    opaque = grey = bilevel = True
    for band in read_bands(path):
        white = np.iinfo(band.dtype).max
        opaque = opaque and (band.shape[2] < 4 or bool((band[..., 3] == white).all()))
        if not opaque:
            return "rgba"
        colours = band[..., :3]
        grey = grey and (band.shape[2] == 1 or bool((colours[..., :1] == colours[..., 1:]).all()))
        if not grey and band.shape[2] == 3:
            return "rgb"
        bilevel = bilevel and bool(((colours == 0) | (colours == white)).all())
    return "rgb" if not grey else "bilevel" if bilevel else "grey"


def read_image_bands(
    path: str | os.PathLike, mode: str, threshold: float = 0.5, report: Report = log.info
) -> Iterator[ImageData]:
    """Yield the bands of `read_bands`, converted to a mode as by `read_image`."""
    _require_whole(path)
    for band in read_bands(path, report):
        own_mode = MODES[band.shape[2]]
        yield ImageData(band, own_mode, 8 * band.itemsize).converted(mode, threshold)


def _opened(path: str | os.PathLike, access: str = "sequential") -> "pyvips.Image":
    import pyvips

    open_input(path, EXPECTED).close()
    only_loaders(*FORMATS)
    try:
        image = pyvips.Image.new_from_file(os.fspath(Path(path)), access=access, fail_on="error")
    except pyvips.Error as error:
        found = f"is not an image that can be read ({reason_of(error)})"
        raise InputError(str(path), found, EXPECTED, EXPORT) from error
    if image.interpretation not in SPACES or image.format not in DTYPES:
        found = f"is of the kind {image.interpretation}, {image.bands} x {image.format}"
        raise InputError(str(path), found, "grey, RGB or CMYK of 8 or 16 bits a channel", EXPORT)
    if str(image.get("vips-loader")).startswith("tiff"):
        image = _without_extra_channels(image, path)
    if image.bands > 4:
        raise InputError(str(path), f"has {image.bands} channels", "at most 4", EXPORT)
    return image


def _without_extra_channels(image: "pyvips.Image", path: str | os.PathLike) -> "pyvips.Image":
    """Drop the channels of a TIFF that are neither colour nor alpha, such as infrared."""
    with open_input(path, EXPECTED) as file:
        start = file.read(8)
        if start[:4] == b"MM\0+":  # a big-endian BigTIFF, whose tags Pillow cannot read
            return image
        start += file.read(8) if start[2:3] == b"+" else b""
        tags = TiffImagePlugin.ImageFileDirectory_v2(start)
        file.seek(tags.next)
        tags.load(file)
    colours = _COLOURS[SPACES[str(image.interpretation)]]
    if colours == 1 < image.bands and tags.get(284) == 2:  # libvips mixes their values up
        raise undecodable(str(path), "planes of grey and of alpha are not supported")
    kept = colours + (tags.get(338, ())[:1] in ((1,), (2,)))
    return image[:kept] if kept < image.bands else image


def _require_whole(path: str | os.PathLike) -> None:
    """Raise an error for a JPEG with too little data, for which libvips would only warn."""
    if str(_opened(path).get("vips-loader")).startswith("jpeg"):
        try:
            require_whole_by_vips(os.fspath(path), "JPEG")
        except OSError as error:
            raise undecodable(str(path), str(error)) from error


def _orientation(image: "pyvips.Image") -> int:
    return int(str(image.get("orientation"))) if "orientation" in image.get_fields() else 1
