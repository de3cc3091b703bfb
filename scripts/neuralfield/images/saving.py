"""Saving images as PNG, or with libvips, while they are computed, with only some rows in memory.

libvips gets the rows through a pipe as an uncompressed PNG: of the formats that it can read from a
pipe from top to bottom, PNG is the only one that supports all modes.
"""

import os
import struct
import threading
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import IO, TYPE_CHECKING

import numpy as np

from neuralfield.images.image import ImageData, row_bands
from neuralfield.images.vips import load_vips
from neuralfield.system.files import replacing

if TYPE_CHECKING:
    import pyvips

_PIECE_BYTES = 1 << 18
_COMPRESSION = 4  # 6 is three times slower and saves 5 % at most on photographs
_COLOUR_TYPES = {1: 0, 3: 2, 4: 6}
"""The PNG colour type of each number of channels: grey, RGB, RGBA."""


def write_image(path: str | os.PathLike, image: ImageData) -> None:
    """Write an image as a PNG, without loss; a bilevel image has 1 bit per pixel."""
    write_bands(path, [image.pixels], image.width, image.height, image.bit_depth)


def write_bands(
    path: str | os.PathLike,
    bands: Iterable[np.ndarray],
    width: int,
    height: int,
    bit_depth: int,
) -> None:
    """Write a PNG in bands of rows, so that a large image is never in memory as a whole.

    Bands have shape (rows, width, 1, 3 or 4), and are uint16 for 16 bits, otherwise uint8, with
    values 0 and 1 for 1 bit. The bytes of the file do not depend on the bands, and the file appears
    only when every row has been written. Raises ValueError if the bands do not fit the image.
    """
    with replacing(path) as temporary, temporary.open("wb") as file:
        _write_png(file, bands, width, height, bit_depth, compression=_COMPRESSION)


def save_streamed(
    bands: Iterable[np.ndarray],
    width: int,
    height: int,
    bit_depth: int,
    save: Callable[["pyvips.Image"], object],
) -> None:
    """Save an image with libvips while its bands of rows are computed.

    Parameters
    ----------
    bands : iterable of ndarray
        As in `write_bands`; they are computed in this thread, and saved in another thread.
    width, height : int
        Sides of the image in px.
    bit_depth : {8, 16}
    save : callable
        Called with the image, whose pixels can be read once, from top to bottom.

    Raises
    ------
    pyvips.Error
        `save` failed; no more bands are computed after that.
    ValueError
        The bands do not fit the image.
    """
    vips = load_vips()
    reading, writing = os.pipe()
    failed = threading.Event()

    def save_all() -> None:
        try:
            source = vips.Source.new_from_descriptor(reading)
            save(vips.Image.pngload_source(source, access="sequential", unlimited=True))
        except BaseException:
            failed.set()
            while os.read(reading, _PIECE_BYTES):  # otherwise the writer would wait forever
                pass
            raise

    with ThreadPoolExecutor(1) as saver:
        saved = saver.submit(save_all)
        try:
            with os.fdopen(writing, "wb") as pipe:
                _write_png(pipe, bands, width, height, bit_depth, stopped=failed.is_set)
            saved.result()
        finally:
            saver.shutdown()
            os.close(reading)


def write_tiff_bands(
    path: str | os.PathLike, bands: Iterable[np.ndarray], width: int, height: int, bit_depth: int
) -> None:
    """Write a BigTIFF of compressed tiles, without loss, in bands of rows; see `save_streamed`."""
    packing = {"compression": "deflate", "predictor": "horizontal", "bigtiff": True}
    with replacing(path) as temporary:

        def save(image: "pyvips.Image") -> None:
            image.tiffsave(str(temporary), tile=True, tile_width=256, tile_height=256, **packing)

        save_streamed(bands, width, height, bit_depth, save)


def _write_png(
    file: IO[bytes],
    bands: Iterable[np.ndarray],
    width: int,
    height: int,
    bit_depth: int,
    compression: int = 0,
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Write bands as a PNG until writing is stopped. Format: https://www.w3.org/TR/png-3/.

    Rows of 8 or 16 bits that are compressed are stored as differences from the row above.
    """
    packer, pending, rows_left, channels = zlib.compressobj(compression), bytearray(), height, 0
    dtype = np.dtype(np.uint16 if bit_depth == 16 else np.uint8)
    filter_type = 2 if compression and bit_depth > 1 else 0
    above: np.ndarray | int = 0
    for band in bands:
        if stopped():
            return
        if not channels:
            channels = band.shape[2]
            colour_type = _COLOUR_TYPES[channels]
            header = struct.pack(">IIBBBBB", width, height, bit_depth, colour_type, 0, 0, 0)
            file.write(b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"sRGB", b"\1"))
        if band.shape[1:] != (width, channels) or band.dtype != dtype or len(band) > rows_left:
            raise ValueError(f"a band of shape {band.shape} does not fit {width} x {height} pixels")
        rows_left -= len(band)
        for part in row_bands(band):
            rows = np.ascontiguousarray(band[part], dtype.newbyteorder(">"))
            if bit_depth == 1:
                rows = np.packbits(rows[..., 0], axis=1)
            rows = rows.reshape(len(rows), -1).view(np.uint8)
            lines = np.full((len(rows), 1 + rows.shape[1]), filter_type, np.uint8)
            lines[:, 1:] = rows
            if filter_type:
                lines[1:, 1:] -= rows[:-1]
                lines[0, 1:] -= above
                above = rows[-1].copy()
            pending += packer.compress(lines.data)
            _write_pieces(file, pending)
    if rows_left:
        raise ValueError(f"{rows_left} rows of the image were never given")
    pending += packer.flush()
    _write_pieces(file, pending, at_least_bytes=1)
    file.write(_chunk(b"IEND", b""))


def _write_pieces(file: IO[bytes], pending: bytearray, at_least_bytes: int = _PIECE_BYTES) -> None:
    """Write compressed bytes in chunks of equal size, and remove them."""
    while len(pending) >= at_least_bytes:
        file.write(_chunk(b"IDAT", bytes(pending[:_PIECE_BYTES])))
        del pending[:_PIECE_BYTES]


def _chunk(name: bytes, content: bytes) -> bytes:
    """Return a chunk of a PNG: its length, name, content and checksum."""
    checksum = zlib.crc32(content, zlib.crc32(name))
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", checksum)
