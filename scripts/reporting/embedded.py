"""Images and time-lapses as data URIs, which are embedded in a page."""

import base64
import io
import mimetypes
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from neuralfield.images import read_made_image
from neuralfield.rendering.levels import as_picture

OVERVIEW_PX = 1024
"""Maximum longer side of a whole image on the page; larger images are reduced to it."""

LOSSLESS_BYTES = 100_000
WEBP_QUALITY = 92

THUMBNAIL_PX, THUMBNAIL_QUALITY = 112, 70

CROP_SHARE = 6
SMALLEST_CROP_PX, LARGEST_CROP_PX = 32, 160

ENCODERS = 8
"""Number of images that are encoded at the same time."""

_LOSSLESS: dict[str, Any] = {"lossless": True, "quality": 20, "method": 0}
"""Fast lossless settings: they take a tenth of the time of others, for a tenth more bytes."""

Box = tuple[int, int, int, int]
"""left, top, right, bottom, in pixels."""


def file_uri(path: Path) -> str:
    """Return the whole file as a data URI."""
    return _uri(path.read_bytes(), mimetypes.guess_type(path.name)[0] or "application/octet-stream")


def overview_uri(path: Path) -> str:
    """Return an image as WebP: lossless if that is small, as for line art, else slightly lossy."""
    return _overview_uri(_read(path))


def thumbnail_uri(path: Path) -> str:
    """Return a thumbnail of a few thousand bytes."""
    image = _read(path)
    image.thumbnail((THUMBNAIL_PX, THUMBNAIL_PX), Image.Resampling.BOX)
    return _uri(_encoded(image, quality=THUMBNAIL_QUALITY, method=2), "image/webp")


def overviews_and_crops(paths: Collection[Path], box: Box) -> dict[Path, tuple[str, str]]:
    """Return the `overview_uri` and a lossless crop of each image, encoded in parallel."""

    def encode(path: Path) -> tuple[str, str]:
        image = _read(path)
        crop = _uri(_encoded(image.crop(box), **_LOSSLESS), "image/webp")
        return _overview_uri(image), crop

    with ThreadPoolExecutor(ENCODERS) as encoders:
        return dict(zip(paths, encoders.map(encode, paths), strict=True))


def most_detailed_box(values: np.ndarray, cell_px: int) -> Box:
    """Find the square with the most detail; its side is about a sixth of the image's longer side.

    The measure of detail is the mean over the square of the variance in neighbourhoods of side
    `cell_px`. The size of a pixel of the training image is a good choice for `cell_px`, because the
    network had to guess all detail within such a pixel.
    """
    height, width = values.shape[:2]
    side = int(np.clip(max(height, width) // CROP_SHARE, SMALLEST_CROP_PX, LARGEST_CROP_PX))
    side = min(side, height, width)
    cell_px = min(max(cell_px, 2), side)
    variance = sum(
        _box_means(plane**2, cell_px) - _box_means(plane, cell_px) ** 2
        for plane in np.moveaxis(values.astype(np.float64), 2, 0)
    )
    detail = _box_means(np.asarray(variance), side - cell_px + 1)
    top, left = np.unravel_index(int(detail.argmax()), detail.shape)
    return int(left), int(top), int(left) + side, int(top) + side


def _box_means(plane: np.ndarray, side: int) -> np.ndarray:
    """Return the means over all squares inside the plane, computed from cumulative sums."""
    total = np.pad(plane.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
    squares = total[side:, side:] - total[:-side, side:] - total[side:, :-side]
    return (squares + total[:-side, :-side]) / side**2


def _read(path: Path) -> Image.Image:
    return as_picture(read_made_image(path).values())


def _overview_uri(image: Image.Image) -> str:
    image.thumbnail((OVERVIEW_PX, OVERVIEW_PX), Image.Resampling.LANCZOS)
    content = _encoded(image, **_LOSSLESS)
    if len(content) > LOSSLESS_BYTES:
        content = min(content, _encoded(image, quality=WEBP_QUALITY, method=2), key=len)
    return _uri(content, "image/webp")


def _encoded(image: Image.Image, **options: Any) -> bytes:
    content = io.BytesIO()
    image.save(content, format="WebP", **options)
    return content.getvalue()


def _uri(content: bytes, media_type: str) -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"
