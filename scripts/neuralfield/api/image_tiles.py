"""The tiles of an image that is coded; of an image file, one tile at a time is in memory."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from neuralfield.api.arguments import require, require_path, require_positive
from neuralfield.api.training_image import training_image
from neuralfield.coding.nfz import LONGEST_SIDE_PX
from neuralfield.coding.tiles import MOST_STRIP_PIXELS, MOST_TILE_PX, strip_pixels
from neuralfield.images import PixelFile, choose_mode, read_header, read_image_bands
from neuralfield.images.image import require_mode
from neuralfield.images.image_file import image_size
from neuralfield.images.pixel_file import write_pixel_file
from neuralfield.images.tiling import Tile, Tiling
from neuralfield.system.errors import InputError

_MOST_PIXELS, _MOST_SIDE_PX = 16_000_000, 1 << 16
"""Largest size of images that are in one piece unless a tile is given."""

_USUAL_TILE_PX, _LEAST_TILE_PX, _OVERLAP_PX = 2048, 64, 16

_MEGAPIXELS_AT_ONCE = 100.0
"""Largest file that is read as a whole, because its rows are stored in another order."""

ValuesOf = Callable[[Tile], np.ndarray]
"""A function that returns the values of a tile: float32, shape (height, width, channels)."""


def is_usually_whole(width: int, height: int) -> bool:
    """Return whether an image is in one piece unless a tile is given."""
    return width * height <= _MOST_PIXELS and max(width, height) <= _MOST_SIDE_PX


@contextmanager
def opened_tiles(
    image: Any, tile_px: int | None, mode: str, max_megapixels: float, folder: Path | None
) -> Iterator[tuple[Tiling, ValuesOf]]:
    """Yield the tiles of an image, which may be one, and a function that returns their values.

    The pixels of a large file are unpacked to the folder, or to a temporary folder, if there are
    several tiles.
    """
    require_positive("max_megapixels", max_megapixels)
    require_mode(mode, "auto")
    if isinstance(image, str | os.PathLike):
        path = require_path("image", image)
        tiling = _tiling(*image_size(path), tile_px)
        if tiling.count > 1:
            with _unpacked(path, mode, max_megapixels, folder) as pixels:
                yield tiling, lambda tile: pixels.window(*tile.edges).values()
            return
    values = training_image(image, mode=mode, max_megapixels=max_megapixels).values
    tiling = _tiling(values.shape[1], values.shape[0], tile_px)
    yield tiling, lambda tile: values[tile.top : tile.bottom, tile.left : tile.right]


@contextmanager
def _unpacked(
    path: Path, mode: str, max_megapixels: float, folder: Path | None
) -> Iterator[PixelFile]:
    header = read_header(path)
    most, remedy = max_megapixels, "raise max_megapixels if you trust the file"
    if not header.row_by_row and most > _MEGAPIXELS_AT_ONCE:
        most = _MEGAPIXELS_AT_ONCE
        large = "large.tif[tile,compression=deflate,bigtiff]"
        remedy = f"store it row by row: vips copy {path} {large}"
    if header.width * header.height > most * 1e6:
        found = f"has {header.width * header.height:,} pixels"
        raise InputError(str(path), found, f"at most {most:g} million", remedy)
    mode = choose_mode(path) if mode == "auto" else mode
    with ExitStack() as stack:
        if folder is None:
            temporary = tempfile.TemporaryDirectory(prefix="neuralfield_")
            folder = Path(stack.enter_context(temporary))
        pixels, bands = folder / "pixels.npy", read_image_bands(path, mode)
        stack.callback(pixels.unlink, missing_ok=True)
        yield PixelFile(pixels, mode, write_pixel_file(pixels, header.width, header.height, bands))


def _tiling(width: int, height: int, tile_px: int | None) -> Tiling:
    expected = f"sides of at most {LONGEST_SIDE_PX:,} pixels"
    require(max(width, height) <= LONGEST_SIDE_PX, "image", (width, height), expected)
    if tile_px is None:
        tile_px = min(_USUAL_TILE_PX, MOST_STRIP_PIXELS // width)
        if is_usually_whole(width, height):
            tile_px = max(width, height, _LEAST_TILE_PX)
        return Tiling(width, height, tile_px, _OVERLAP_PX)
    is_whole = isinstance(tile_px, int) and not isinstance(tile_px, bool)
    is_right = is_whole and _LEAST_TILE_PX <= tile_px <= MOST_TILE_PX
    require(is_right, "tile", tile_px, f"{_LEAST_TILE_PX} to {MOST_TILE_PX} pixels")
    tiling = Tiling(width, height, tile_px, _OVERLAP_PX)
    expected = f"at most {MOST_STRIP_PIXELS // width} pixels for an image of this width"
    require(strip_pixels(tiling) <= MOST_STRIP_PIXELS, "tile", tile_px, expected)
    return tiling
