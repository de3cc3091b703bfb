"""Writing PNG in every mode and depth, whole or in bands of rows; equal pixels give equal bytes."""

import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from neuralfield.images.image import ImageData
from neuralfield.system.files import replacing

COLOUR_TYPES = {1: 0, 3: 2, 4: 6}
"""The PNG colour type of each number of channels: grey, RGB, RGBA."""

MAX_SIDE_PX = 2**31 - 1
COMPRESSION_LEVEL = 4  # 6 is three times slower and saves 5 % at most on photographs
CHUNK_BYTES = 2**18
BAND_BYTES = 2**22
FILTER_NONE, FILTER_UP = 0, 2
RELATIVE_COLORIMETRIC = b"\1"


class PngBandWriter:
    """Write a PNG in bands of rows, so that a huge image is never whole in memory.

    It has 1, 3 or 4 channels (grey or bilevel, RGB, RGBA) of 8 or 16 bits, or one of 1 bit; a
    ValueError is raised for others. Its bytes do not depend on the bands, and the file appears only
    when every row has been written.

    Every row of 8 or 16 bits holds the differences from the row above (filter type *up*); rows of 1
    bit are stored as they are. Format: https://www.w3.org/TR/png-3/.
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
        self._header = struct.pack(
            ">IIBBBBB", width, height, bit_depth, COLOUR_TYPES[channels], 0, 0, 0
        )

    def __enter__(self) -> "PngBandWriter":
        self._context = self._opened()
        self._context.__enter__()
        return self

    def __exit__(self, *error: Any) -> bool | None:
        return self._context.__exit__(*error)

    def write_rows(self, rows: np.ndarray) -> None:
        """Write the next rows, shape (any, width, channels): uint16 for 16 bits, otherwise uint8; 0
        and 1 for 1 bit. Raises ValueError for other rows, or too many.
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
        """Write waiting compressed bytes in chunks, while there are at least so many."""
        while len(self._pending) >= at_least_bytes and self._pending:
            self._write_chunk(b"IDAT", bytes(self._pending[:CHUNK_BYTES]))
            del self._pending[:CHUNK_BYTES]

    def _write_chunk(self, name: bytes, content: bytes) -> None:
        self._file.write(struct.pack(">I", len(content)) + name + content)
        self._file.write(struct.pack(">I", zlib.crc32(name + content)))

    @contextmanager
    def _opened(self) -> Iterator[None]:
        with replacing(self._path) as temporary, temporary.open("wb") as self._file:
            self._compressor = zlib.compressobj(COMPRESSION_LEVEL)
            self._pending = bytearray()
            self._row_above: np.ndarray | int = 0
            self._file.write(b"\x89PNG\r\n\x1a\n")
            self._write_chunk(b"IHDR", self._header)
            self._write_chunk(b"sRGB", RELATIVE_COLORIMETRIC)
            yield
            if self._rows_left:
                raise ValueError(f"{self._rows_left} rows of the PNG were never written")
            self._pending += self._compressor.flush()
            self._write_pending(0)
            self._write_chunk(b"IEND", b"")


def write_image(path: str | os.PathLike, image: ImageData) -> None:
    """Write an image as PNG without loss, bilevel with 1 bit a pixel, by `PngBandWriter`."""
    shape = (image.width, image.height, image.channels)
    with PngBandWriter(path, *shape, image.bit_depth) as png:
        png.write_rows(image.pixels)
