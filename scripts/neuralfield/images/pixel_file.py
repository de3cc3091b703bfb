"""Pixels of an image in an uncompressed .npy file, from which any part can be read."""

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from neuralfield.images.image import CHANNELS, ImageData
from neuralfield.system.errors import InputError
from neuralfield.system.files import replacing
from neuralfield.system.provenance import remedy_for


def write_pixel_file(
    path: str | os.PathLike, width: int, height: int, bands: Iterable[ImageData]
) -> int:
    """Write an image in NumPy's format, as an array of shape (height, width, channels).

    Bands are given from top to bottom, all with the same mode and depth. Returns the bits per
    channel: 1, 8 or 16. Raises ValueError if the bands do not have `height` rows in total.
    """
    rows_left, bit_depth = height, 0
    with replacing(path) as temporary, temporary.open("wb") as file:
        for band in bands:
            if not bit_depth:
                bit_depth = band.bit_depth
                dtype = np.lib.format.dtype_to_descr(band.pixels.dtype)
                shape = (height, width, band.channels)
                header = {"descr": dtype, "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
            file.write(np.ascontiguousarray(band.pixels).data)
            rows_left -= band.height
        if rows_left:
            raise ValueError(f"{rows_left} rows of the image were never given")
    return bit_depth


class PixelFile(NamedTuple):
    """A file that `write_pixel_file` wrote; windows are read without reading other rows."""

    path: str | os.PathLike
    mode: str
    bit_depth: int

    def window(self, left: int, top: int, right: int, bottom: int) -> ImageData:
        """Read a window of the image.

        Edges are in px; `right` and `bottom` are exclusive. Raises `InputError` if the file is
        missing or damaged, or the window is not inside the image.
        """
        return next(self.bands((left, top, right, bottom), bottom - top))

    def bands(self, edges: tuple[int, int, int, int], rows: int) -> Iterator[ImageData]:
        """Read a window as `window` does, but yield bands of at most `rows` rows."""
        left, top, right, bottom = edges
        expected = "the pixels that `unpack` writes"
        remedy, where = remedy_for(self.path), str(self.path)
        try:
            # a new memory map for each window, because its pages stay in memory until it is closed
            pixels = np.lib.format.open_memmap(self.path, mode="r")
        except (OSError, ValueError) as error:
            raise InputError(where, f"cannot be read ({error})", expected, remedy) from error
        inside = 0 <= left < right <= pixels.shape[1] and 0 <= top < bottom <= pixels.shape[0]
        if not inside or pixels.shape[2:] != (CHANNELS[self.mode],):
            found = f"has the shape {pixels.shape}"
            raise InputError(where, found, f"columns to {right} and rows to {bottom}", remedy)
        for start in range(top, bottom, rows):
            band = pixels[start : min(start + rows, bottom), left:right]
            yield ImageData(np.array(band), self.mode, self.bit_depth)
