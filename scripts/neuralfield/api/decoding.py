"""Reading the files of images, `.nfz`."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from neuralfield.api.arguments import plain, require, require_path, require_positive
from neuralfield.api.rendered import RenderedImage
from neuralfield.coding import nfz, tiles
from neuralfield.coding.decoding import latent_bits, pixels_of
from neuralfield.engines.cuda.latents.decoder import CudaDecoder
from neuralfield.images.image import MODES, ImageData
from neuralfield.system.device import select_device
from neuralfield.system.errors import InputError
from neuralfield.system.input_files import open_input
from neuralfield.viewing.coded_page import coded_page


def decode(
    source: str | os.PathLike | bytes,
    *,
    region: tuple[int, int, int, int] | None = None,
    max_megapixels: float = nfz.MAX_MEGAPIXELS,
    device: str = "cpu",
) -> RenderedImage:
    """Decode a file that `neuralfield.encode` has written.

    The pixels are the same on every machine, bit for bit.

    Parameters
    ----------
    source : path or bytes
        An ``.nfz`` file, or its content.
    region : (int, int, int, int), optional
        Left, top, width and height in pixels of the part of the image to return; default: all. Of
        an image in tiles, the tiles that it touches are decoded.
    max_megapixels : float
        Maximum size of the image, or of a region of an image in tiles; a larger one raises
        ValueError.
    device : {"cpu", "gpu", "auto"}
        Where to decode. The first image takes longer on a GPU, for which kernels are compiled.

    Returns
    -------
    RenderedImage
        float32 multiples of 1 / 255, shape (height, width) for grey, otherwise (height, width, 3
        or 4). ``levels()`` returns the decoded levels, uint8; ``save("photo.png")`` writes them.

    Raises
    ------
    ValueError
        The file is damaged, cut off, of a newer version or of another kind, or the image is too
        large.
    FileNotFoundError
        The file does not exist.

    Examples
    --------
    >>> import neuralfield as nf
    >>> nf.decode(b"GIF89a")
    Traceback (most recent call last):
      ...
    neuralfield.system.errors.InputError: source: is not a coded image; ...
    """
    _, _, bands = decoded_bands(*content_of(source), region, max_megapixels, device)
    levels = np.concatenate(list(bands))
    values = ImageData(levels, MODES[levels.shape[2]], 8).values()
    return (values[..., 0] if values.shape[2] == 1 else values).view(RenderedImage)


def decoded_bands(
    content: bytes,
    where: str,
    region: tuple[int, int, int, int] | None = None,
    max_megapixels: float | None = None,
    device: str = "cpu",
) -> tuple[int, int, Iterable[np.ndarray]]:
    """Return the sides of a decoded image, or region, and its levels in bands, from top to bottom.

    Images in tiles are decoded while the bands are taken; their usual limit of size is higher.
    """
    if max_megapixels is not None:
        require_positive("max_megapixels", max_megapixels)
    if not content.startswith(tiles.MAGIC):
        pixels = decoded(content, where, max_megapixels or nfz.MAX_MEGAPIXELS, device).pixels
        left, top, width, height = _region(region, pixels.shape[1], pixels.shape[0])
        return width, height, [pixels[top : top + height, left : left + width]]
    image = tiles.TiledImage.from_bytes(content, where)
    region = _region(region, image.tiling.width, image.tiling.height)
    most, width, height = max_megapixels or tiles.MAX_MEGAPIXELS, *region[2:]
    if width * height > most * 1e6:
        found, expected = f"{width:,} x {height:,} pixels", f"at most {most:g} megapixels"
        remedy = "decode a region, or raise max_megapixels (--max-megapixels)"
        raise InputError(where, found, expected, remedy)

    def levels_of(content: bytes, where: str) -> np.ndarray:
        return decoded(content, where, tiles.MOST_TILE_PX**2 / 1e6, device).pixels

    return width, height, image.bands(region, levels_of)


def _region(region: Any, width: int, height: int) -> tuple[int, int, int, int]:
    """Return a region of an image, or raise an error if it is not inside the image."""
    found = plain((0, 0, width, height) if region is None else region)
    is_right = isinstance(found, tuple) and [type(number) for number in found] == [int] * 4
    if is_right:
        is_right = 0 <= found[0] < found[0] + found[2] <= width
        is_right = is_right and 0 <= found[1] < found[1] + found[3] <= height
    expected = f"left, top, width and height in whole pixels, within {width:,} x {height:,}"
    require(is_right, "region", region, expected)
    return found


def content_of(source: str | os.PathLike | bytes) -> tuple[bytes, str]:
    """Return the content of a file, and its name in errors."""
    if isinstance(source, bytes):
        return source, "source"
    path = require_path("source", source)
    with open_input(path, nfz.EXPECTED) as file:
        size_bytes = os.fstat(file.fileno()).st_size
        if size_bytes > nfz.MOST_BYTES:
            found, expected = "is too large", f"at most {nfz.MOST_BYTES >> 30} GiB"
            raise InputError(str(path), found, expected)
        return file.read(size_bytes), str(path)


def decoded(
    content: bytes,
    where: str,
    max_megapixels: float = nfz.MAX_MEGAPIXELS,
    device: str = "cpu",
) -> ImageData:
    """Decode the content of a file; `where` names it in errors."""
    require_positive("max_megapixels", max_megapixels)
    selected, reader, pixels = select_device(device), nfz.code_latents, pixels_of
    if selected.kind == "gpu":
        decoder = CudaDecoder(selected)
        reader, pixels = decoder.read_latents, decoder.pixels
    image = nfz.from_bytes(content, where, max_megapixels, reader)
    return ImageData(pixels(image), MODES[image.channels], 8)


def page_of(source: str | os.PathLike, max_megapixels: float | None) -> str:
    """Return an HTML page that contains a file, and decodes it in the browser."""
    content, where = content_of(source)
    # damage is reported here, not in the page
    nfz.from_bytes(content, where, max_megapixels or nfz.MAX_MEGAPIXELS)
    return coded_page(content, Path(source).stem)


def in_words(content: bytes, where: str) -> str:
    """Return what a file contains, and where its bits are."""
    if content.startswith(tiles.MAGIC):
        tiling = tiles.TiledImage.from_bytes(content, where).tiling
        size = f"{tiling.width:,} x {tiling.height:,} pixels in {tiling.count:,} tiles"
        return f"an image of {size}, {len(content):,} bytes"
    image = nfz.from_bytes(content, where)
    bits = latent_bits(image)
    grids = ", ".join(f"{round(part / 8):,}" for part in bits)
    others = round(len(content) - sum(bits) / 8)
    per_pixel = 8 * len(content) / (image.width * image.height)
    return (
        f"an image of {image.width:,} x {image.height:,} pixels, {MODES[image.channels]},"
        f" {len(content):,} bytes, {per_pixel:.3f} bits per pixel\n"
        f"bytes of latents, the finest grid first: {grids}; of networks: {others:,}"
    )
