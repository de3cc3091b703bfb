"""Reading of image files, and writing of PNG files.

Files are read with Pillow, or with libvips if Pillow would reduce 16 bits to 8. PNG files are
written as a whole or in bands of rows, in every mode and depth; equal pixels give equal bytes.
"""

import os
import re
import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np
from PIL import ExifTags, Image, PngImagePlugin, TiffImagePlugin, UnidentifiedImageError

from neuralfield.images.colour import MAX_PROFILE_BYTES, Report, conversion_of, log
from neuralfield.images.floats import decode_floats, open_floats
from neuralfield.images.image import ImageData, image_of_pixels, require_mode, simplest_pixels
from neuralfield.images.unreadable import EXPECTED, EXPORT, undecodable, unrecognised
from neuralfield.images.vips import only_loaders, reason_of
from neuralfield.images.whole import require_palette, require_whole_before
from neuralfield.system.errors import InputError
from neuralfield.system.files import replacing
from neuralfield.system.input_files import open_input

FORMATS = ("PNG", "JPEG", "TIFF", "WEBP", "GIF", "BMP", "PPM", "AVIF")
"""The supported formats; others are not, because their decoders are less well maintained."""

MOST_SCANS = 100
"""Maximum number of scans in a JPEG. Common files have about ten; decoding each scan takes as long
as the whole image."""


def read_image(
    path: str | os.PathLike,
    *,
    mode: str = "auto",
    threshold: float = 0.5,
    max_megapixels: float = 100.0,
    report: Report = log.info,
) -> ImageData:
    """Read an image file as upright levels of sRGB.

    The file is a PNG, JPEG, TIFF, WebP or another of `FORMATS`; of an animation, the first frame is
    read. 16 bits are kept for PNG and TIFF, and for grey images of any format; other colour images
    have 8 bits. TIFFs of floating-point values are converted to 16 bits. Colours are converted to
    sRGB with the embedded profile, see `neuralfield.images.colour`; without a profile, the levels
    are assumed to be sRGB. ``docs/images.md`` describes the supported files and their conversion.

    The `mode` ``auto`` selects the simplest mode without loss: ``rgba`` if any pixel is not opaque,
    else ``rgb`` if any pixel is coloured, else ``grey`` if any pixel is neither black nor white,
    else ``bilevel``. Other modes convert the image, see `ImageData.converted`. `report` is called
    with a line about converted colours, and about the frame or page that was read. Raises
    `InputError` if the file is missing, empty, damaged, truncated or not an image. It also raises
    `InputError`, before decoding, if the image has more than `max_megapixels`.
    """
    require_mode(mode, "auto")
    with open_input(path, EXPECTED) as file:
        pixels = simplest_pixels(_decoded(str(path), file, max_megapixels, report))
    return image_of_pixels(pixels, mode, threshold)


def image_size(path: str | os.PathLike) -> tuple[int, int]:
    """Read (width, height) in px of the upright image, without decoding the file.

    Raises `InputError` if the file is missing, empty, or not an image.
    """
    with open_input(path, EXPECTED) as file, _decoding(str(path), file, 1e9):
        floats = open_floats(str(path), file)
        if floats is not None:
            return floats.width, floats.height
        with Image.open(file, formats=FORMATS) as image:
            width, height = image.size
            return (height, width) if _is_on_its_side(image) else (width, height)


def _is_on_its_side(image: Image.Image) -> bool:
    """Check whether EXIF swaps the sides of an image that is opened but not decoded yet."""
    if image.format == "TIFF":  # its sides are those of the upright image
        return False
    if image.format == "PNG" and "exif" not in image.info:  # Pillow would decode the whole image
        return False
    return image.getexif().get(ExifTags.Base.Orientation) in (5, 6, 7, 8)


def _decoded(where: str, file: BinaryIO, max_megapixels: float, report: Report) -> np.ndarray:
    """Decode a file to upright sRGB; uint8 or uint16, shape (height, width, 1, 3 or 4)."""
    with _decoding(where, file, max_megapixels):
        floats = open_floats(where, file)
        if floats is not None:
            _require_size(where, floats.width * floats.height, max_megapixels)
            return decode_floats(where, floats, report)
        with Image.open(file, formats=FORMATS) as image:
            return _decoded_levels(where, file, image, max_megapixels, report)


def _decoded_levels(
    where: str, file: BinaryIO, image: Image.Image, max_megapixels: float, report: Report
) -> np.ndarray:
    """Decode as `_decoded` does, but an image that Pillow has opened."""
    _require_size(where, image.width * image.height, max_megapixels)
    frames = getattr(image, "n_frames", 1)
    if frames > 1:
        report(f"read the first of {frames} {'pages' if image.format == 'TIFF' else 'frames'}")
    _require_few_scans(image, file)
    require_whole_before(image, where, os.fstat(file.fileno()).st_size)
    orientation = image.getexif().get(ExifTags.Base.Orientation, 1)
    space = _space_of(image.mode)
    image.load()  # raises an error for a truncated image
    require_palette(image)
    convert = conversion_of(image.info.get("icc_profile"), space, report)
    if _is_deep_colour(image, file):
        return convert(_upright(_decoded_by_vips(where, image), orientation))
    stored = np.asarray(image) if space == "CMYK" else pixels_of_pillow(where, image)
    pixels = convert(stored)
    # when Pillow loads a TIFF, it turns it upright; it does not for other formats
    return pixels if image.format == "TIFF" else _upright(pixels, orientation)


def _space_of(mode: str) -> str:
    """Return the colour space of a Pillow mode, as ICC profiles name it."""
    if mode in ("1", "L", "LA", "La") or mode.startswith("I"):
        return "GRAY"
    return {"CMYK": "CMYK", "LAB": "Lab"}.get(mode, "RGB")


@contextmanager
def _decoding(where: str, file: BinaryIO, max_megapixels: float) -> Iterator[None]:
    """Set the limits of decoders, and convert all their exceptions to `InputError`."""
    try:
        with _pillow_limits(max_megapixels):
            yield
    except (InputError, MemoryError, ImportError):
        raise
    except Image.DecompressionBombError as error:
        count = re.search(r"(\d+) pixels", str(error))
        raise _too_large(where, int(count[1]) if count else 0, max_megapixels) from error
    except UnidentifiedImageError as error:
        raise unrecognised(where, file) from error
    except Exception as error:  # decoders raise many kinds for damaged files
        reason = str(error) or type(error).__name__
        if "MAX_TEXT" in reason:
            found = "contains too much text or too large a colour profile"
            expected = f"at most {MAX_PROFILE_BYTES >> 20} MiB of each"
            raise InputError(where, found, expected, f"{EXPORT} without its metadata") from error
        raise undecodable(where, reason) from error


@contextmanager
def _pillow_limits(max_megapixels: float) -> Iterator[None]:
    """Replace Pillow's limits with those of this module, and suppress its warnings."""
    own_limit, own_text_limit = Image.MAX_IMAGE_PIXELS, PngImagePlugin.MAX_TEXT_CHUNK
    Image.MAX_IMAGE_PIXELS = max(1, int(min(max_megapixels, 1e9) * 1e6))
    PngImagePlugin.MAX_TEXT_CHUNK = MAX_PROFILE_BYTES  # this limit also applies to profiles
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        Image.MAX_IMAGE_PIXELS, PngImagePlugin.MAX_TEXT_CHUNK = own_limit, own_text_limit


def _require_size(where: str, pixels: int, most: float) -> None:
    if pixels < 1:
        raise InputError(where, "has a side of 0 pixels", EXPECTED, EXPORT)
    if pixels > most * 1e6:
        raise _too_large(where, pixels, most)


def _too_large(where: str, pixels: int, max_megapixels: float) -> InputError:
    return InputError(
        where,
        f"has {pixels:,} pixels",
        f"at most {max_megapixels:g} million",
        "reduce it first, train it in tiles (`tiles` of an image in config.yaml), or raise"
        " max_megapixels if you trust the file",
    )


def _require_few_scans(image: Image.Image, file: BinaryIO) -> None:
    """Raise an error for a JPEG with so many scans that decoding a small file takes hours."""
    if image.format in ("JPEG", "MPO"):
        file.seek(0)
        scans = file.read().count(b"\xff\xda")  # start of scan; compressed data has 0 after 255
        if scans > MOST_SCANS:
            raise OSError(f"{scans} scans in a JPEG")


def _is_deep_colour(image: Image.Image, file: BinaryIO) -> bool:
    """Check whether a file has 16 bits per channel, which Pillow would reduce to 8."""
    if image.format == "PNG":
        file.seek(24)  # the bit depth, in the header that every PNG starts with
        return file.read(1) == b"\x10"
    if isinstance(image, TiffImagePlugin.TiffImageFile):
        bits, photometric = image.tag_v2.get(258, (1,)), image.tag_v2.get(262)
        return photometric == 2 and set(bits) == {16}
    return False


def _decoded_by_vips(where: str, image: Image.Image) -> np.ndarray:
    """Decode a 16-bit file to uint16, shape (height, width, 1, 3 or 4), not yet upright."""
    import pyvips

    only_loaders("Png", "Tiff")
    try:
        stored = pyvips.Image.new_from_file(where, access="sequential", fail_on="error")
        if stored.format != "ushort" or {stored.width, stored.height} != {*image.size}:
            raise OSError("its tags contradict each other")
        pixels = stored.numpy().reshape(stored.height, stored.width, stored.bands)
    except pyvips.Error as error:
        raise OSError(reason_of(error)) from error
    if image.format == "TIFF":  # as Pillow, drop extra channels other than alpha
        return pixels[..., : len(image.getbands())]
    return pixels[..., [0, 0, 0, 1]] if stored.bands == 2 else pixels


def pixels_of_pillow(where: str, image: Image.Image) -> np.ndarray:
    """Return pixels as uint8, or uint16 for 16-bit grey; shape (height, width, 1, 3 or 4)."""
    if image.mode == "F":  # floating-point TIFFs are read elsewhere
        raise InputError(where, "holds floating-point values", "levels of 8 or 16 bits", EXPORT)
    if image.mode.startswith("I"):
        levels = _deep_grey_levels(image)
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


def _deep_grey_levels(image: Image.Image) -> np.ndarray:
    """Return levels of a mode with more than 8 bits; those of TIFFs are scaled to 16 bits."""
    levels = np.asarray(image)
    if isinstance(image, TiffImagePlugin.TiffImageFile) and image.mode.startswith("I;16"):
        white = 2 ** image.tag_v2.get(258, (16,))[0] - 1
        levels = (levels.astype(np.uint32) * 65535 + white // 2) // white
        if image.tag_v2.get(262) == 0:  # photometric interpretation: 0 is white
            levels = 65535 - levels
    return levels


def _upright(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """Turn pixels upright according to the EXIF orientation, 1 to 8; ignore other values."""
    if orientation in (5, 6, 7, 8):
        pixels = pixels.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return np.ascontiguousarray(pixels)


PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
COLOUR_TYPES = {1: 0, 3: 2, 4: 6}
"""The PNG colour type of each number of channels: grey, RGB, RGBA."""

MAX_SIDE_PX = 2**31 - 1
COMPRESSION_LEVEL = 4  # 6 is three times slower and saves 5 % at most on photographs
CHUNK_BYTES = 2**18
BAND_BYTES = 2**22
FILTER_NONE, FILTER_UP = 0, 2
RELATIVE_COLORIMETRIC = b"\1"


class PngBandWriter:
    """Writer of a PNG in bands of rows, so that a large image is never in memory as a whole.

    The PNG has 1, 3 or 4 channels (grey or bilevel, RGB, RGBA) of 8 or 16 bits, or one channel of 1
    bit; a ValueError is raised for others. The bytes of the file do not depend on the bands, and
    the file appears only when every row has been written.

    Rows of 8 or 16 bits are stored as differences from the row above (filter type *up*); rows of 1
    bit are stored unfiltered. Format: https://www.w3.org/TR/png-3/.
    """

    def __init__(
        self, path: str | os.PathLike, width: int, height: int, channels: int, bit_depth: int
    ) -> None:
        if not (1 <= width <= MAX_SIDE_PX and 1 <= height <= MAX_SIDE_PX):
            raise ValueError(f"a PNG cannot be {width} x {height} pixels")
        if (channels, bit_depth) not in {(1, 1), *((c, d) for c in COLOUR_TYPES for d in (8, 16))}:
            raise ValueError(f"no PNG here has {channels} channels of {bit_depth} bits")
        self._path, self._bit_depth = path, bit_depth
        self._row_shape = (width, channels)
        self._rows_left = height
        self._start = png_start(width, height, channels, bit_depth)

    def __enter__(self) -> "PngBandWriter":
        self._context = self._opened()
        self._context.__enter__()
        return self

    def __exit__(self, *error: Any) -> bool | None:
        return self._context.__exit__(*error)

    def write_rows(self, rows: np.ndarray) -> None:
        """Write the next rows, shape (rows, width, channels).

        They are uint16 for 16 bits, otherwise uint8, with values 0 and 1 for 1 bit. Raises
        ValueError for rows of another shape or type, or too many rows.
        """
        dtype = np.dtype(np.uint16 if self._bit_depth == 16 else np.uint8)
        if rows.shape[1:] != self._row_shape or rows.dtype != dtype:
            raise ValueError(
                f"rows of shape {rows.shape} and type {rows.dtype} given; "
                f"this PNG has {self._row_shape} a row and type {dtype}"
            )
        if len(rows) > self._rows_left:
            raise ValueError(f"{len(rows)} rows given; only {self._rows_left} are left to write")
        self._rows_left -= len(rows)
        rows_per_band = max(1, BAND_BYTES // (rows[:1].nbytes or 1))
        for start in range(0, len(rows), rows_per_band):
            self._write_band(rows[start : start + rows_per_band])

    def _write_band(self, rows: np.ndarray) -> None:
        if self._bit_depth == 1:
            filter_type, filtered = FILTER_NONE, np.packbits(rows[..., 0], axis=1)
        else:
            stored = np.ascontiguousarray(rows, dtype=rows.dtype.newbyteorder(">"))
            stored = stored.reshape(len(rows), -1).view(np.uint8)
            filter_type, filtered = FILTER_UP, stored.copy()
            filtered[1:] -= stored[:-1]
            filtered[0] -= self._row_above
            self._row_above = stored[-1].copy()
        lines = np.empty((len(rows), 1 + filtered.shape[1]), np.uint8)
        lines[:, 0] = filter_type
        lines[:, 1:] = filtered
        self._pending += self._compressor.compress(lines.data)
        self._write_pending(CHUNK_BYTES)

    def _write_pending(self, at_least_bytes: int) -> None:
        """Write pending compressed bytes in chunks, while there are at least `at_least_bytes`."""
        while len(self._pending) >= at_least_bytes and self._pending:
            self._file.write(png_chunk(b"IDAT", bytes(self._pending[:CHUNK_BYTES])))
            del self._pending[:CHUNK_BYTES]

    @contextmanager
    def _opened(self) -> Iterator[None]:
        with replacing(self._path) as temporary, temporary.open("wb") as self._file:
            self._compressor = zlib.compressobj(COMPRESSION_LEVEL)
            self._pending = bytearray()
            self._row_above: np.ndarray | int = 0
            self._file.write(self._start)
            self._file.write(png_chunk(b"sRGB", RELATIVE_COLORIMETRIC))
            yield
            if self._rows_left:
                raise ValueError(f"{self._rows_left} rows of the PNG were never written")
            self._pending += self._compressor.flush()
            self._write_pending(0)
            self._file.write(png_chunk(b"IEND", b""))


def write_image(path: str | os.PathLike, image: ImageData) -> None:
    """Write an image as a PNG, without loss; a bilevel image has 1 bit per pixel."""
    shape = (image.width, image.height, image.channels)
    with PngBandWriter(path, *shape, image.bit_depth) as png:
        png.write_rows(image.pixels)


def png_start(width: int, height: int, channels: int, bit_depth: int) -> bytes:
    """Return the beginning of a PNG: its signature and header."""
    header = struct.pack(">IIBBBBB", width, height, bit_depth, COLOUR_TYPES[channels], 0, 0, 0)
    return PNG_SIGNATURE + png_chunk(b"IHDR", header)


def png_chunk(name: bytes, content: bytes) -> bytes:
    """Return a chunk of a PNG: its length, name, content and checksum."""
    length, checksum = struct.pack(">I", len(content)), zlib.crc32(content, zlib.crc32(name))
    return length + name + content + struct.pack(">I", checksum)
