"""PNG files encoded without the code under test, so that its errors are found."""

import struct
import zlib

import numpy as np

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunk(name: bytes, content: bytes) -> bytes:
    checksum = struct.pack(">I", zlib.crc32(name + content))
    return struct.pack(">I", len(content)) + name + content + checksum


def png_bytes(
    levels: np.ndarray,
    colour_type: int,
    extra: bytes = b"",
    size: tuple[int, int] | None = None,
    bits: int | None = None,
) -> bytes:
    """Encode levels, or bytes of several levels if there are few `bits`; `size` is what is claimed.

    `extra` are further chunks, which come before the pixels.
    """
    stored = levels.astype(levels.dtype.newbyteorder(">"))
    rows = b"".join(b"\0" + row.tobytes() for row in stored)
    sides = size or levels.shape[1::-1]
    header = struct.pack(">IIBBBBB", *sides, bits or 8 * levels.itemsize, colour_type, 0, 0, 0)
    content = chunk(b"IHDR", header) + extra + chunk(b"IDAT", zlib.compress(rows))
    return SIGNATURE + content + chunk(b"IEND", b"")
