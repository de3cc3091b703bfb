"""Images and time-lapses as data URIs, which are embedded in a page."""

import base64
import io
import mimetypes
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from PIL import Image

from neuralfield.images import read_made_image
from neuralfield.images.detail import Box
from neuralfield.rendering.levels import as_picture

OVERVIEW_PX = 1024
"""Maximum longer side of a whole image on the page; larger images are reduced to it."""

LOSSLESS_BYTES = 100_000
WEBP_QUALITY = 92

THUMBNAIL_PX, THUMBNAIL_QUALITY = 112, 70

ENCODERS = 8
"""Number of images that are encoded at the same time."""

_LOSSLESS: dict[str, Any] = {"lossless": True, "quality": 20, "method": 0}
"""Fast lossless settings: they take a tenth of the time of others, for a tenth more bytes."""


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
