"""Renders of any size as files to zoom into: a Deep Zoom pyramid, or a TIFF in tiles.

libvips saves the upper rows of a render while the lower ones are rendered, and holds some of them.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from neuralfield.images.streaming import save_streamed
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

    def save(image: "pyvips.Image") -> None:
        image.dzsave(
            str(folder / "image"),
            suffix=suffix + _SAVING[suffix],
            tile_size=TILE_PX,
            overlap=OVERLAP_PX,
        )

    bands = render_bands(model, width, height, device=device, bit_depth=8, **options)
    save_streamed(bands, width, height, save)
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
    bands = render_bands(model, width, height, device=device, bit_depth=bit_depth, **options)
    with replacing(path) as temporary:

        def save(image: "pyvips.Image") -> None:
            image.tiffsave(
                str(temporary),
                tile=True,
                tile_width=256,
                tile_height=256,
                compression="deflate",
                predictor="horizontal",
                bigtiff=True,
            )

        save_streamed(bands, width, height, save)
