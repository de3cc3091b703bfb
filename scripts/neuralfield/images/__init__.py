"""Images: reading and writing files, resizing, and the table of pixels that training reads."""

from neuralfield.images.bands import Header, choose_mode, read_header, read_image_bands
from neuralfield.images.image import ImageData, convert_values
from neuralfield.images.image_facts import (
    image_digest,
    read_facts,
    read_made_image,
    require_image,
    save_facts,
    write_facts,
)
from neuralfield.images.image_file import PngBandWriter, read_image, write_image
from neuralfield.images.pixel_file import PixelFile, write_pixel_file
from neuralfield.images.pixel_table import read_pixel_csv, write_pixel_csv
from neuralfield.images.resizing import Overview, resize_image

__all__ = [
    "Header",
    "ImageData",
    "Overview",
    "PixelFile",
    "PngBandWriter",
    "choose_mode",
    "convert_values",
    "image_digest",
    "read_facts",
    "read_header",
    "read_image",
    "read_image_bands",
    "read_made_image",
    "read_pixel_csv",
    "require_image",
    "resize_image",
    "save_facts",
    "write_facts",
    "write_image",
    "write_pixel_csv",
    "write_pixel_file",
]
