"""Pictures: reading and writing files, resizing, and the table of pixels that training reads."""

from neuralfield.images.facts import picture_digest, read_facts, require_picture, write_facts
from neuralfield.images.picture import Picture, convert_values
from neuralfield.images.pixel_table import (
    PixelTable,
    picture_from_table,
    read_pixel_csv,
    write_pixel_csv,
)
from neuralfield.images.reading import read_picture
from neuralfield.images.resizing import resize_picture
from neuralfield.images.writing import PngBandWriter, write_picture

__all__ = [
    "Picture",
    "PixelTable",
    "PngBandWriter",
    "convert_values",
    "picture_digest",
    "picture_from_table",
    "read_facts",
    "read_picture",
    "read_pixel_csv",
    "require_picture",
    "resize_picture",
    "write_facts",
    "write_picture",
    "write_pixel_csv",
]
