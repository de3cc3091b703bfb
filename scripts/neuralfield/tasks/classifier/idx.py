"""Reading of IDX files, the format of MNIST: arrays of bytes of any dimension.

An IDX file consists of two zero bytes, the code of the data type (8: bytes), the number of
dimensions, the size of each dimension as a big-endian 32-bit number, and the values, with the last
dimension contiguous (LeCun, Cortes & Burges, "The MNIST database of handwritten digits").
"""

import gzip
import math
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from neuralfield.system.device import HOST, require_memory
from neuralfield.system.errors import InputError
from neuralfield.system.input_files import FETCH_AGAIN, open_input
from neuralfield.system.provenance import sha256_of

MOST_BYTES = 1 << 30
"""Maximum size of a file in bytes, and maximum number of its values."""

MOST_SIDE_PX = 4096

_BYTES = 8
_GZIP_MAGIC = b"\x1f\x8b"
_MOST_PACKED = 1032
"""Maximum ratio of the unpacked size to the size of a DEFLATE stream."""

_DAMAGES = (gzip.BadGzipFile, EOFError, zlib.error)

_CONTENTS = {1: "labels", 3: "images"}
"""Contents of the files of a data set by their number of dimensions."""


def read_idx(path: str | os.PathLike, dimensions: int, sha256: str | None = None) -> np.ndarray:
    """Read an IDX file of bytes, optionally compressed with gzip.

    Files with 1 dimension contain labels, files with 3 dimensions contain images. The sizes in the
    header are checked against the size of the file before memory is allocated. If `sha256` is
    given, the file must have this checksum. Raises `InputError` if the file or its content is
    larger than 1 GiB, an image has a side above 4096, or the file is invalid, and `ResourceError`
    if there is too little memory.
    """
    with _opened(path, dimensions, sha256) as (where, stream, shape):
        count = math.prod(shape)
        require_memory(count, HOST, where, "use fewer or smaller images")
        content = stream.read(count + 1)
        if len(content) < count:
            raise _other_length(where, f"ends after {len(content):,} values", shape)
        if len(content) > count:
            raise _other_length(where, "continues after its last value", shape)
    return np.frombuffer(content, np.uint8).reshape(shape)


def read_idx_shape(path: str | os.PathLike, dimensions: int) -> tuple[int, ...]:
    """Return the shape in the header of an IDX file, after a check against the file's length."""
    with _opened(path, dimensions) as (_, _, shape):
        return shape


@contextmanager
def _opened(
    path: str | os.PathLike, dimensions: int, sha256: str | None = None
) -> Iterator[tuple[str, Any, tuple[int, ...]]]:
    """Open a file; yield its name, a stream of the content after the header, and its shape."""
    where, expected = os.fspath(path), f"an IDX file of {_CONTENTS[dimensions]}"
    with open_input(path, expected) as file:
        size_bytes = os.fstat(file.fileno()).st_size
        if size_bytes > MOST_BYTES:
            found = f"has {size_bytes >> 20:,} MiB"
            raise InputError(where, found, f"at most {MOST_BYTES >> 20:,} MiB", "use fewer images")
        if sha256 is not None:
            found = sha256_of(path)
            if found != sha256.lower():
                remedy = f"{FETCH_AGAIN}, or correct the checksum in the settings"
                raise InputError(where, f"has the SHA-256 {found}", sha256.lower(), remedy)
        is_packed = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
        file.seek(0)
        stream: Any = gzip.GzipFile(fileobj=file) if is_packed else file
        most_bytes = _MOST_PACKED * size_bytes if is_packed else size_bytes
        try:
            yield where, stream, _shape(where, stream, dimensions, expected, most_bytes)
        except _DAMAGES as error:
            found = f"is damaged ({error})"
            raise InputError(where, found, f"{expected}, packed by gzip", FETCH_AGAIN) from error


def _shape(
    where: str, stream: Any, dimensions: int, expected: str, most_bytes: int
) -> tuple[int, ...]:
    """Read the header; `most_bytes` is the maximum unpacked size of the file, with the header."""
    header = stream.read(4 + 4 * dimensions)
    magic = bytes([0, 0, _BYTES, dimensions])
    if header[:4] != magic:
        found = f"begins with the bytes {header[:4].hex(' ')}"
        remedy = "use the file exactly as it was downloaded"
        raise InputError(where, found, f"{magic.hex(' ')}, {expected}", remedy)
    if len(header) < 4 + 4 * dimensions:
        raise InputError(where, "ends within its header", expected, FETCH_AGAIN)
    shape = struct.unpack(f">{dimensions}I", header[4:])
    count, words = math.prod(shape), _in_words(shape)
    if not count:
        raise InputError(where, f"has {words} values", f"at least one of {_CONTENTS[dimensions]}")
    if count > MOST_BYTES or max(shape[1:], default=0) > MOST_SIDE_PX:
        limits = f"at most {MOST_BYTES >> 20:,} MiB, and sides of at most {MOST_SIDE_PX:,} pixels"
        raise InputError(where, f"claims {words} values", limits, "use fewer or smaller images")
    if len(header) + count > most_bytes:
        found = f"cannot hold more than {most_bytes - len(header):,} values"
        raise _other_length(where, found, shape)
    return shape


def _other_length(where: str, found: str, shape: tuple[int, ...]) -> InputError:
    expected = f"{math.prod(shape):,}, as its header says: {_in_words(shape)}"
    return InputError(where, found, expected, FETCH_AGAIN)


def _in_words(shape: tuple[int, ...]) -> str:
    return " x ".join(f"{size:,}" for size in shape)
