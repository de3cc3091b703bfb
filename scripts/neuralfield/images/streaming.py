"""An image that libvips saves while it is made, in memory for a few rows.

It goes through a pipe as a PNG file whose rows are stored and not compressed: of the files that
libvips reads from a pipe, from top to bottom, the one that has all modes.
"""

import os
import struct
import threading
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import IO, TYPE_CHECKING

import numpy as np

from neuralfield.images.image_file import COLOUR_TYPES, PNG_SIGNATURE, png_chunk
from neuralfield.images.vips import only_loaders

if TYPE_CHECKING:
    import pyvips

_PIECE_BYTES = 1 << 20


def save_streamed(
    bands: Iterable[np.ndarray], width: int, height: int, save: Callable[["pyvips.Image"], object]
) -> None:
    """Let libvips save an image whose bands of rows are made meanwhile.

    Parameters
    ----------
    bands : iterable of ndarray of uint8 or uint16, shape (rows, width, 1, 3 or 4)
        From top to bottom; they are made in this thread, and saved in another.
    width, height : int
        Sides of the image in px.
    save : callable
        Called with the image, whose pixels can be read once, from top to bottom.

    Raises
    ------
    pyvips.Error
        What `save` raises; no more bands are made then.
    ValueError
        The bands have other rows than the image.
    """
    import pyvips

    only_loaders("Png")
    reading, writing = os.pipe()
    failed = threading.Event()

    def save_all() -> None:
        try:
            source = pyvips.Source.new_from_descriptor(reading)
            save(pyvips.Image.pngload_source(source, access="sequential", unlimited=True))
        except BaseException:
            failed.set()
            while os.read(reading, _PIECE_BYTES):  # or the other end would wait forever
                pass
            raise

    with ThreadPoolExecutor(1) as saver:
        saved = saver.submit(save_all)
        try:
            with os.fdopen(writing, "wb") as pipe:
                _write_png(pipe, bands, width, height, failed)
            saved.result()
        finally:
            saver.shutdown()
            os.close(reading)


def _write_png(
    pipe: IO[bytes], bands: Iterable[np.ndarray], width: int, height: int, failed: threading.Event
) -> None:
    """Write the bands, until there are no more or they cannot be saved."""
    packer, rows_left = zlib.compressobj(0), height
    for band in bands:
        if failed.is_set():
            return
        depth = 8 * band.itemsize
        if rows_left == height:
            header = (width, height, depth, COLOUR_TYPES[band.shape[2]], 0, 0, 0)
            pipe.write(PNG_SIGNATURE + png_chunk(b"IHDR", struct.pack(">IIBBBBB", *header)))
        values = np.ascontiguousarray(band, f">u{band.itemsize}").reshape(len(band), -1)
        rows = np.zeros((len(band), 1 + values.shape[1] * values.itemsize), np.uint8)
        rows[:, 1:] = values.view(np.uint8)  # behind a 0: without a filter
        pieces = rows.reshape(-1).data
        for start in range(0, len(pieces), _PIECE_BYTES):
            pipe.write(png_chunk(b"IDAT", packer.compress(pieces[start : start + _PIECE_BYTES])))
        rows_left -= len(band)
    if rows_left:
        raise ValueError(f"{rows_left} rows of the image were never given")
    pipe.write(png_chunk(b"IDAT", packer.flush()) + png_chunk(b"IEND", b""))
