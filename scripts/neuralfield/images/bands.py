"""Reading a picture file from top to bottom, some rows at a time, however large it is.

libvips decodes tiles, strips and rows as they are asked for, and gives back what has been read.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from neuralfield.images.colour import Report, conversion_of, log
from neuralfield.images.image import Picture
from neuralfield.images.reading import EXPECTED, EXPORT
from neuralfield.images.vips import embedded_profile, only_loaders
from neuralfield.images.whole import require_whole_by_vips
from neuralfield.system.errors import InputError
from neuralfield.system.input_files import FETCH_AGAIN, open_input

if TYPE_CHECKING:
    import pyvips

BAND_VALUES = 2**22
"""Values of a band at the most."""

FORMATS = ("Png", "Jpeg", "Tiff", "Webp")
"""What is opened at all, as libvips calls it: it knows many more, PDF and SVG among them."""

SPACES = {"b-w": "GRAY", "grey16": "GRAY", "srgb": "RGB", "rgb16": "RGB", "cmyk": "CMYK"}
"""Colour spaces by libvips' names for what it has read."""

DTYPES = {"uchar": np.uint8, "ushort": np.uint16}


@dataclass(frozen=True)
class Header:
    """What a file says of its picture before any pixel is read.

    Attributes
    ----------
    width, height : int
        Of the picture when it is upright, in px.
    row_by_row : bool
        Whether its rows are stored one after another. Those of an interlaced PNG or a progressive
        JPEG, or of a picture that lies on its side, are not, and all of it has to be decoded first.
    """

    width: int
    height: int
    row_by_row: bool


def read_header(path: str | os.PathLike) -> Header:
    """The sides of a picture, from its file's first bytes.

    Raises
    ------
    InputError
        The file is missing, not a picture, or of a kind that cannot be read in bands.
    """
    image = _opened(path)
    fields = image.get_fields()
    orientation = _orientation(image)
    interlaced = "interlaced" in fields and bool(image.get("interlaced"))
    width, height = image.width, image.height
    if orientation in (5, 6, 7, 8):
        width, height = height, width
    return Header(width, height, orientation == 1 and not interlaced)


def read_bands(path: str | os.PathLike, report: Report = log.debug) -> Iterator[np.ndarray]:
    """All rows of an image, upright, from top to bottom, as levels of sRGB.

    Parameters
    ----------
    path : str or os.PathLike
        PNG, JPEG, TIFF (also BigTIFF; of strips or tiles, compressed or not), WebP: grey or RGB,
        with or without alpha, of 1, 8 or 16 bits a channel; CMYK of 8; palettes are looked up.
    report : callable
        See `read_picture`.

    Yields
    ------
    ndarray of uint8 or uint16, shape (rows, width, 1, 3 or 4)

    Raises
    ------
    InputError
        The file is missing, damaged or cut off, or its pixels are of another kind.
    """
    import pyvips

    image = _opened(path)
    if _orientation(image) != 1:  # rows in another order than they are stored in
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
        found = f"is cut off or damaged ({_reason(error)})"
        raise InputError(str(path), found, EXPECTED, FETCH_AGAIN) from error


def choose_mode(path: str | os.PathLike) -> str:
    """The simplest mode that holds all of a picture: ``auto`` of `read_picture`, in bands."""
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


def read_picture_bands(
    path: str | os.PathLike, mode: str, threshold: float = 0.5, report: Report = log.info
) -> Iterator[Picture]:
    """The bands of `read_bands` as pictures of one mode.

    Parameters
    ----------
    path : str or os.PathLike
    mode : {"bilevel", "grey", "rgb", "rgba"}
    threshold : float
        For ``bilevel``: a luma of at least this is white.
    report : callable
        See `read_picture`.
    """
    _require_whole(path)
    for band in read_bands(path, report):
        own_mode = {1: "grey", 3: "rgb", 4: "rgba"}[band.shape[2]]
        yield Picture(band, own_mode, 8 * band.itemsize).converted(mode, threshold)


def _opened(path: str | os.PathLike, access: str = "sequential") -> "pyvips.Image":
    import pyvips

    open_input(path, EXPECTED).close()
    only_loaders(*FORMATS)
    try:
        image = pyvips.Image.new_from_file(os.fspath(Path(path)), access=access, fail_on="error")
    except pyvips.Error as error:
        found = f"is not a picture that can be read ({_reason(error)})"
        raise InputError(str(path), found, EXPECTED, EXPORT) from error
    if image.interpretation not in SPACES or image.format not in DTYPES:
        found = f"is of the kind {image.interpretation}, {image.bands} x {image.format}"
        raise InputError(str(path), found, "grey, RGB or CMYK of 8 or 16 bits a channel", EXPORT)
    if image.bands > 4:
        raise InputError(str(path), f"has {image.bands} channels", "at most 4", EXPORT)
    return image


def _require_whole(path: str | os.PathLike) -> None:
    """Refuse a JPEG whose data are too few: of that alone libvips only warns."""
    if str(_opened(path).get("vips-loader")).startswith("jpeg"):
        try:
            require_whole_by_vips(os.fspath(path), "JPEG")
        except OSError as error:
            found = f"is cut off or damaged ({error})"
            raise InputError(str(path), found, EXPECTED, FETCH_AGAIN) from error


def _orientation(image: "pyvips.Image") -> int:
    return int(str(image.get("orientation"))) if "orientation" in image.get_fields() else 1


def _reason(error: "pyvips.Error") -> str:
    """The last line of what libvips says, which is the most particular one."""
    lines = str(error).strip().splitlines()
    return lines[-1].strip() if lines else "no reason given"
