"""Renders of any size as files to zoom into: a Deep Zoom pyramid, or a TIFF in tiles.

libvips saves the upper rows of a render while the lower rows are rendered, and keeps only some rows
in memory.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from neuralfield.images.saving import save_streamed, write_tiff_bands
from neuralfield.rendering.render import Options, render_bands
from neuralfield.tasks.image.mosaic import Trained

if TYPE_CHECKING:
    import pyvips

TILE_PX = 254
"""Side of a tile of a pyramid; with `OVERLAP_PX` on each side, it is 256 pixels."""

OVERLAP_PX = 1

_SAVING = {".jpg": "[Q=90]", ".png": "[compression=3,filter=up]"}
"""Options of libvips. By default, it compresses PNG without a filter, which takes 1.6 times as long
and makes files a fifth larger."""


def write_pyramid(
    model: Trained, folder: Path, width: int, height: int, suffix: str, **options: Unpack[Options]
) -> None:
    """Render an image into a Deep Zoom pyramid: ``image.dzi`` and ``image_files`` in a folder.

    `suffix` is that of its tiles: ``.png``, or ``.jpg``, which has no transparency.
    """
    folder.mkdir(parents=True, exist_ok=True)

    def save(image: "pyvips.Image") -> None:
        name, ending = str(folder / "image"), suffix + _SAVING[suffix]
        image.dzsave(name, suffix=ending, tile_size=TILE_PX, overlap=OVERLAP_PX)

    options["bit_depth"] = 8
    save_streamed(render_bands(model, width, height, **options), width, height, 8, save)
    # this file has the time of creation, but equal settings must give equal files
    (folder / "image_files" / "vips-properties.xml").unlink(missing_ok=True)


def write_tiff(
    model: Trained, path: Path, width: int, height: int, **options: Unpack[Options]
) -> None:
    """Render an image into a BigTIFF of compressed tiles, without loss, by default of 8 bits."""
    bit_depth = options.setdefault("bit_depth", 8)
    write_tiff_bands(path, render_bands(model, width, height, **options), width, height, bit_depth)
