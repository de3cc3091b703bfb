"""Saving an image with libvips while it is computed, with only a few rows in memory.

The image is sent through a pipe as an uncompressed PNG file. Of the formats that libvips can read
from a pipe from top to bottom, PNG is the one that supports all modes.
"""

import os
import threading
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import IO, TYPE_CHECKING

import numpy as np

from neuralfield.images.image_file import png_chunk, png_start
from neuralfield.images.vips import only_loaders

if TYPE_CHECKING:
    import pyvips

_PIECE_BYTES = 1 << 20


def save_streamed(
    bands: Iterable[np.ndarray], width: int, height: int, save: Callable[["pyvips.Image"], object]
) -> None:
    """Save an image with libvips while its bands of rows are computed.

    Parameters
    ----------
    bands : iterable of ndarray of uint8 or uint16, shape (rows, width, 1, 3 or 4)
        Bands from top to bottom; they are computed in this thread, and saved in another thread.
    width, height : int
        Sides of the image in px.
    save : callable
        Called with the image, whose pixels can be read once, from top to bottom.

    Raises
    ------
    pyvips.Error
        `save` failed; no more bands are computed after that.
    ValueError
        The bands do not have as many rows as the image.
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
            while os.read(reading, _PIECE_BYTES):  # otherwise the writer would wait forever
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
    """Write all bands to the pipe, but stop if saving has failed."""
    packer, rows_left = zlib.compressobj(0), height
    for band in bands:
        if failed.is_set():
            return
        if rows_left == height:
            pipe.write(png_start(width, height, band.shape[2], 8 * band.itemsize))
        values = np.ascontiguousarray(band, f">u{band.itemsize}").reshape(len(band), -1)
        rows = np.zeros((len(band), 1 + values.shape[1] * values.itemsize), np.uint8)
        rows[:, 1:] = values.view(np.uint8)  # after filter type 0: no filter
        pieces = rows.reshape(-1).data
        for start in range(0, len(pieces), _PIECE_BYTES):
            pipe.write(png_chunk(b"IDAT", packer.compress(pieces[start : start + _PIECE_BYTES])))
        rows_left -= len(band)
    if rows_left:
        raise ValueError(f"{rows_left} rows of the image were never given")
    pipe.write(png_chunk(b"IDAT", packer.flush()) + png_chunk(b"IEND", b""))
