"""Other codecs of images, as Pillow writes them: their bits, and the quality of what is read."""

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from neuralfield.images.image import ImageData
from neuralfield.images.metrics import finite_db, psnr_db


@dataclass(frozen=True)
class Codec:
    """A codec that Pillow, or a plugin of it, has: its name there, its options and qualities."""

    format: str
    options: Mapping[str, Any]
    qualities: tuple[int, ...]

    @property
    def is_available(self) -> bool:
        Image.init()
        return self.format in Image.SAVE

    def encode(self, image: Image.Image, quality: float) -> bytes:
        """Return the content of a file of this quality."""
        file = io.BytesIO()
        image.save(file, self.format, quality=round(quality), **self.options)
        return file.getvalue()

    def decode(self, content: bytes, mode: str) -> np.ndarray:
        """Return the levels of a file in a mode of Pillow."""
        with Image.open(io.BytesIO(content)) as file:
            return np.asarray(file.convert(mode))


CODECS = {
    "JPEG": Codec(
        "JPEG",
        {"optimize": True, "progressive": True, "subsampling": "4:4:4"},
        (10, 25, 50, 70, 85, 93, 97),
    ),
    "WebP": Codec("WEBP", {"method": 6}, (5, 30, 60, 80, 90, 96)),
    "AVIF": Codec("AVIF", {"speed": 3, "subsampling": "4:4:4"}, (20, 35, 50, 65, 80, 90)),
    "JPEG XL": Codec("JXL", {"effort": 8}, (10, 30, 50, 70, 85, 93)),
}
"""Codecs with 4:4:4 colour where the format has it. JPEG XL needs the package pillow-jxl-plugin."""


class Rate(NamedTuple):
    """A file of an image that a codec has written, and the PSNR of the decoded levels."""

    codec: str
    quality: int
    bytes: int
    bits_per_pixel: float
    psnr_db: float


def rates(image: ImageData) -> Iterator[Rate]:
    """Code an image, with 8 bits, by each available codec at each of its qualities.

    Nothing is yielded for an image with transparency, which not all codecs have.
    """
    levels = np.rint(255 * image.values()).astype(np.uint8)
    picture = Image.fromarray(levels[..., 0] if image.channels == 1 else levels)
    codecs = CODECS if image.channels <= 3 else {}
    for name, codec in codecs.items():
        for quality in codec.qualities if codec.is_available else ():
            content = codec.encode(picture, quality)
            decoded = codec.decode(content, picture.mode).reshape(levels.shape)
            bits = 8 * len(content) / (image.width * image.height)
            reached_db = finite_db(psnr_db(decoded / 255, levels / 255))
            yield Rate(name, quality, len(content), bits, reached_db)
