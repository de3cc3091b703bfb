"""Renders of any size as files to zoom into: a Deep Zoom pyramid, or a TIFF in tiles.

A render is written to the disk in bands, uncompressed, and libvips reads it from there once, from
top to bottom: neither holds more than some rows of it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Unpack

from neuralfield.images.image import MODES, ImageData
from neuralfield.images.pixel_file import header_bytes, write_bands
from neuralfield.images.vips import only_loaders
from neuralfield.rendering.render import Options, render_bands
from neuralfield.system.device import Device
from neuralfield.system.files import replacing
from neuralfield.tasks.image.mosaic import Trained

if TYPE_CHECKING:
    import pyvips

TILE_PX = 254
"""Side of a tile of a pyramid; with `OVERLAP_PX` more at each side, 256."""

OVERLAP_PX = 1

_SAVING = {".jpg": "[Q=90]", ".png": "[compression=3,filter=up]"}
"""Options of libvips. By default it compresses PNG without a filter, which takes 1.6 times as long
for files a fifth larger."""


def write_pyramid(
    model: Trained,
    folder: Path,
    width: int,
    height: int,
    *,
    suffix: str,
    device: Device,
    **options: Unpack[Options],
) -> None:
    """Render an image into a Deep Zoom pyramid: ``image.dzi`` and ``image_files`` in a folder.

    `suffix` is that of its tiles: ``.png``, or ``.jpg``, which has no transparency. For the other
    parameters see `render_bands`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _rendered(model, folder, width, height, device=device, bit_depth=8, **options) as image:
        image.dzsave(
            str(folder / "image"),
            suffix=suffix + _SAVING[suffix],
            tile_size=TILE_PX,
            overlap=OVERLAP_PX,
        )
    # it says when the pyramid was made, and equal settings give equal files
    (folder / "image_files" / "vips-properties.xml").unlink(missing_ok=True)


def write_tiff(
    model: Trained,
    path: Path,
    width: int,
    height: int,
    *,
    device: Device,
    bit_depth: int = 8,
    **options: Unpack[Options],
) -> None:
    """Render an image into a BigTIFF of compressed tiles, without loss; see `render_bands`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        _rendered(
            model, path.parent, width, height, device=device, bit_depth=bit_depth, **options
        ) as image,
        replacing(path) as temporary,
    ):
        image.tiffsave(
            str(temporary),
            tile=True,
            tile_width=256,
            tile_height=256,
            compression="deflate",
            predictor="horizontal",
            bigtiff=True,
        )


@contextmanager
def _rendered(
    model: Trained,
    folder: Path,
    width: int,
    height: int,
    *,
    device: Device,
    bit_depth: int,
    **options: Unpack[Options],
) -> "Iterator[pyvips.Image]":
    """Render into a temporary file in a folder, and open that as an image of libvips."""
    import pyvips

    mode = MODES[model.channels]
    with TemporaryDirectory(prefix=".render_", dir=folder) as temporary:
        path = Path(temporary, "pixels.npy")
        bands = render_bands(model, width, height, device=device, bit_depth=bit_depth, **options)
        with path.open("wb") as file:
            write_bands(file, width, height, (ImageData(band, mode, bit_depth) for band in bands))
        only_loaders("Raw")
        image = pyvips.Image.rawload(
            str(path),
            width,
            height,
            model.channels,
            offset=header_bytes(path),
            format="ushort" if bit_depth == 16 else "uchar",
            interpretation=_interpretation(mode, bit_depth),
            access="sequential",
        )
        assert isinstance(image, pyvips.Image)
        yield image


def _interpretation(mode: str, bit_depth: int) -> str:
    """Return libvips' name of the kind of values."""
    if mode == "grey":
        return "grey16" if bit_depth == 16 else "b-w"
    return "rgb16" if bit_depth == 16 else "srgb"
