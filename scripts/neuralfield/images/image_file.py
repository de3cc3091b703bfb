"""Reading of image files, as a whole or in bands of rows from top to bottom.

libvips decodes PNG, JPEG, TIFF, WebP and GIF, at their own bit depth and row by row where the file
is stored so, and Pillow decodes AVIF, BMP and PPM.
"""

import math
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from PIL import ExifTags, Image, ImageOps, TiffImagePlugin

from neuralfield.images.colour import (
    COLOURS,
    SPACES,
    Report,
    from_linear_light,
    log,
    to_srgb,
    with_profile,
)
from neuralfield.images.image import (
    MODES,
    ImageData,
    image_of_pixels,
    require_mode,
    simplest_mode,
    simplest_pixels,
)
from neuralfield.images.unreadable import EXPECTED, EXPORT, undecodable, unrecognised
from neuralfield.images.vips import load_vips, reason_of
from neuralfield.system.errors import InputError
from neuralfield.system.input_files import open_input

if TYPE_CHECKING:
    import pyvips

MOST_SIDE_PX = 1_000_000
"""Maximum length of a side in pixels; decoding many short rows takes long."""

BAND_VALUES = 2**22
"""Maximum number of values in a band."""

_LOADERS = (
    (rb"\x89PNG\r\n\x1a\n", "png"),
    (rb"\xff\xd8\xff", "jpeg"),
    (rb"II[*+]\0|MM\0[*+]", "tiff"),
    (rb"RIFF.{4}WEBP", "webp"),
    (rb"GIF8[79]a", "gif"),
    (rb"BM|P[1-6]\s|.{4}ftypavi[fs]", "pillow"),
)
"""First bytes of the supported formats, and the libvips loader of each. Other formats are not
supported, because their decoders are less well maintained."""

_HEADER_BYTES = 1 << 16
_NUMBER = rb"((\s|#[^\r\n]*[\r\n])+\d+)"
_PPM_HEADER = re.compile(rb"P([14]%b{2}|[2356]%b{3})" % (_NUMBER, _NUMBER))
_RUN_LENGTHS = (1, 2)
"""The compressions of a BMP that Pillow decodes slowly."""


@dataclass(frozen=True)
class Header:
    """The sides and layout of an image, read without decoding pixels."""

    # sides of the upright image, in px
    width: int
    height: int
    row_by_row: bool
    """Whether rows can be decoded one after another. An interlaced PNG, a progressive JPEG, an
    image that is not stored upright or one that Pillow reads has to be decoded as a whole."""


def read_image(
    path: str | os.PathLike,
    *,
    mode: str = "auto",
    threshold: float = 0.5,
    max_megapixels: float = 100.0,
    report: Report = log.info,
) -> ImageData:
    """Read an image file as upright levels of sRGB.

    The file is a PNG, JPEG, TIFF, WebP, AVIF, GIF, BMP or PPM; of an animation, the first frame is
    read. 16 bits are kept, and TIFFs of floating-point values are converted to 16 bits. Colours are
    converted to sRGB with the embedded profile, see `neuralfield.images.colour`; without a profile,
    the levels are assumed to be sRGB. ``docs/images.md`` describes the supported files and their
    conversion.

    The `mode` ``auto`` selects the simplest mode without loss: ``rgba`` if any pixel is not opaque,
    else ``rgb`` if any pixel is coloured, else ``grey`` if any pixel is neither black nor white,
    else ``bilevel``. Other modes convert the image, see `ImageData.converted`. `report` is called
    with a line about converted colours, and about the frame or page that was read. Raises
    `InputError` if the file is missing, empty, damaged, truncated or not an image. It also raises
    `InputError`, before decoding, if the image has more than `max_megapixels`.
    """
    require_mode(mode, "auto")
    with _decoding(path):
        image = _levels(path, max_megapixels, report)
        pixels = image.numpy().reshape(image.height, image.width, image.bands)
    return image_of_pixels(simplest_pixels(pixels), mode, threshold)


def read_image_bands(
    path: str | os.PathLike, mode: str, threshold: float = 0.5, report: Report = log.info
) -> Iterator[ImageData]:
    """Yield bands of rows of an image of any size from top to bottom; see `read_image`."""
    for band in _bands(path, report):
        own_mode = MODES[band.shape[2]]
        yield ImageData(band, own_mode, 8 * band.itemsize).converted(mode, threshold)


def choose_mode(path: str | os.PathLike) -> str:
    """Return the simplest mode without loss, as ``auto`` of `read_image`, but read in bands."""
    return simplest_mode(_bands(path, log.debug))


def read_header(path: str | os.PathLike) -> Header:
    """Read the sides and layout of an image without decoding it; raises `InputError`."""
    with _decoding(path):
        loader = _loader_of(path)
        if loader == "pillow":
            with _opened_by_pillow(path) as stored:
                orientation = stored.getexif().get(ExifTags.Base.Orientation)
                (width, height), row_by_row = stored.size, False
        else:
            image = _opened(path, loader)
            orientation, width, height = _field(image, "orientation"), image.width, image.height
            interlaced = _field(image, "interlaced", 0)
            as_a_whole = interlaced or loader == "gif" or image.format == "float"
            row_by_row = orientation == 1 and not as_a_whole
        if orientation in (5, 6, 7, 8):
            width, height = height, width
        return Header(width, height, row_by_row)


def image_size(path: str | os.PathLike) -> tuple[int, int]:
    """Read (width, height) in px of the upright image; see `read_header`."""
    header = read_header(path)
    return header.width, header.height


def pixels_of_pillow(where: str, image: Image.Image) -> np.ndarray:
    """Return pixels as uint8, or uint16 for 16-bit grey; shape (height, width, 1, 3 or 4)."""
    if image.mode == "F":
        raise InputError(where, "holds floating-point values", "levels of 8 or 16 bits", EXPORT)
    if image.mode.startswith("I"):
        levels = np.asarray(image)
        if levels.min() < 0 or levels.max() > 65535:
            found = f"has levels from {levels.min()} to {levels.max()}"
            raise InputError(where, found, "levels from 0 to 65535", EXPORT)
        return levels.astype(np.uint16)[..., None]
    if image.mode == "La":  # Pillow converts this mode to LA only
        image = image.convert("LA")
    if image.has_transparency_data:
        return np.asarray(image.convert("RGBA"))
    if image.mode in ("1", "L"):
        return np.asarray(image.convert("L"))[..., None]
    return np.asarray(image.convert("RGB"))


def _bands(path: str | os.PathLike, report: Report) -> Iterator[np.ndarray]:
    """Yield bands of rows of the upright image, uint8 or uint16, shape (rows, width, 1, 3 or 4)."""
    with _decoding(path):
        image = _levels(path, math.inf, report)
        rows = max(1, BAND_VALUES // (image.width * image.bands))
        dtype = np.uint8 if image.format == "uchar" else np.uint16
        region = load_vips().Region.new(image)
        for top in range(0, image.height, rows):
            count = min(rows, image.height - top)
            content = region.fetch(0, top, image.width, count)
            yield np.frombuffer(content, dtype).reshape(count, image.width, image.bands)


def _levels(path: str | os.PathLike, max_megapixels: float, report: Report) -> "pyvips.Image":
    """Return an image of sRGB with 8 or 16 bits, upright, which is decoded when it is used."""
    loader = _loader_of(path)
    if loader == "pillow":
        image = _decoded_by_pillow(path, max_megapixels, report)
    else:
        image = _opened(path, loader, max_megapixels)
        _report_first(_field(image, "n-pages"), loader, report)
        if (
            _field(image, "orientation") != 1
        ):  # rows are not read in the order in which they are stored
            image = _opened(path, loader, max_megapixels, access="random").autorot()
        if loader == "tiff":
            image = _without_other_channels(path, image)
    if image.format == "float":
        image = _of_floats(str(path), image, report)
    if image.interpretation not in SPACES or image.format not in ("uchar", "ushort"):
        found = f"is of the kind {image.interpretation}, {image.bands} x {image.format}"
        raise InputError(str(path), found, "grey, RGB or CMYK of 8 or 16 bits a channel", EXPORT)
    if image.bands > 4:
        raise InputError(str(path), f"has {image.bands} channels", "at most 4", EXPORT)
    image = to_srgb(image, report)
    return image[0].bandjoin([image[0], image[0], image[1]]) if image.bands == 2 else image


def _loader_of(path: str | os.PathLike) -> str:
    with open_input(path, EXPECTED) as file:
        head = file.read(1024)
    for pattern, loader in _LOADERS:
        if re.match(pattern, head, re.DOTALL):
            return loader
    raise unrecognised(str(path), head)


def _opened(
    path: str | os.PathLike,
    loader: str,
    max_megapixels: float = math.inf,
    access: str = "sequential",
) -> "pyvips.Image":
    """Open a file with libvips, without decoding it."""
    vips = load_vips()
    load = getattr(vips.Image, f"{loader}load_source")
    image = load(vips.Source.new_from_file(os.fspath(path)), access=access, fail_on="error")
    _require_size(str(path), image.width, image.height, max_megapixels)
    return image


def _without_other_channels(path: str | os.PathLike, image: "pyvips.Image") -> "pyvips.Image":
    """Drop the channels of a TIFF that are neither colour nor alpha, such as infrared."""
    colours = COLOURS.get(SPACES.get(str(image.interpretation), ""), 4)
    with open_input(path, EXPECTED) as file:
        start = file.read(8)
        if image.bands <= colours or start[:4] == b"MM\0+":  # big-endian BigTIFF: not for Pillow
            return image
        start += file.read(8) if start[2:3] == b"+" else b""
        tags = TiffImagePlugin.ImageFileDirectory_v2(start)
        file.seek(tags.next)
        tags.load(file)
    return image[: colours + (tags.get(338, ())[:1] in ((1,), (2,)))]  # the extra samples


def _of_floats(where: str, image: "pyvips.Image", report: Report) -> "pyvips.Image":
    """Encode the values of a TIFF, which are linear light, as sRGB of 16 bits."""
    values = image.numpy().reshape(image.height, image.width, image.bands)
    if not np.isfinite(values).all():
        expected = "linear light as finite numbers, 0 being black and 1 white"
        raise InputError(where, "holds values that are not finite", expected, "replace them")
    report(
        f"floating-point values from {values.min():g} to {values.max():g} were taken as linear"
        " light from 0 to 1, and encoded as sRGB of 16 bits"
    )
    name = "grey16" if image.bands < 3 else "rgb16"
    return load_vips().Image.new_from_array(from_linear_light(values), interpretation=name)


@contextmanager
def _opened_by_pillow(
    path: str | os.PathLike, max_megapixels: float = math.inf
) -> Iterator[Image.Image]:
    """Open a file with Pillow, without decoding it."""
    where = str(path)
    with open_input(path, EXPECTED) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = file.read(_HEADER_BYTES)
        if start[:1] == b"P":  # Pillow reads comments byte by byte
            header = _PPM_HEADER.match(start)
            is_text = start[1:2] in b"123"
            if not header or (is_text and b"#" in (start + file.read())[header.end() :]):
                found = "has a header of more than 64 KiB, or comments after it"
                raise InputError(where, found, "a header of a few lines", EXPORT)
        file.seek(0)
        with Image.open(file, formats=("AVIF", "BMP", "PPM")) as image:
            if image.format == "BMP" and image.info.get("compression") in _RUN_LENGTHS:
                raise InputError(where, "is compressed by run lengths", "a plain BMP", EXPORT)
            _require_size(where, *image.size, max_megapixels)
            yield image


def _decoded_by_pillow(
    path: str | os.PathLike, max_megapixels: float, report: Report
) -> "pyvips.Image":
    with _opened_by_pillow(path, max_megapixels) as image:
        _report_first(getattr(image, "n_frames", 1), "pillow", report)
        pixels = pixels_of_pillow(str(path), ImageOps.exif_transpose(image))
        content = image.info.get("icc_profile")
    name = {1: ("b-w", "grey16"), 3: ("srgb", "rgb16"), 4: ("srgb", "rgb16")}[pixels.shape[2]]
    deep = pixels.dtype == np.uint16
    decoded = load_vips().Image.new_from_array(pixels, interpretation=name[deep])
    return with_profile(decoded, content) if content else decoded


def _report_first(frames: int, loader: str, report: Report) -> None:
    if frames > 1:
        report(f"read the first of {frames} {'pages' if loader == 'tiff' else 'frames'}")


def _field(image: "pyvips.Image", name: str, usual: int = 1) -> int:
    """Return a number that libvips read from a file's header."""
    return int(str(image.get(name))) if name in image.get_fields() else usual


def _require_size(where: str, width: int, height: int, max_megapixels: float) -> None:
    if max(width, height) > MOST_SIDE_PX:
        found = f"has {width:,} x {height:,} pixels"
        raise InputError(where, found, f"sides of at most {MOST_SIDE_PX:,}", "divide the image")
    if width * height > max_megapixels * 1e6:
        raise InputError(
            where,
            f"has {width * height:,} pixels",
            f"at most {max_megapixels:g} million",
            "reduce it first, train it in tiles (`tiles` of an image in config.yaml), or raise"
            " max_megapixels if you trust the file",
        )


@contextmanager
def _decoding(path: str | os.PathLike) -> Iterator[None]:
    """Convert the exceptions of decoders to `InputError`."""
    try:
        yield
    except (InputError, MemoryError, ImportError):
        raise
    except Exception as error:  # decoders raise many kinds for damaged files
        raise undecodable(str(path), reason_of(error)) from error
