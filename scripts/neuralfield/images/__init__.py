"""Images: reading and writing files, resizing, and the table of pixels that training reads."""

from neuralfield.images.bands import Header, choose_mode, read_header, read_picture_bands
from neuralfield.images.facts import (
    picture_digest,
    read_facts,
    read_made_picture,
    require_picture,
    save_facts,
    write_facts,
)
from neuralfield.images.image import Picture, convert_values
from neuralfield.images.pixel_file import read_window, write_pixel_file
from neuralfield.images.pixel_table import (
    read_pixel_csv,
    write_pixel_csv,
)
from neuralfield.images.reading import read_picture
from neuralfield.images.resizing import Overview, resize_picture
from neuralfield.images.writing import PngBandWriter, write_picture

__all__ = [
    "Header",
    "Overview",
    "Picture",
    "PngBandWriter",
    "choose_mode",
    "convert_values",
    "picture_digest",
    "read_facts",
    "read_header",
    "read_made_picture",
    "read_picture",
    "read_picture_bands",
    "read_pixel_csv",
    "read_window",
    "require_picture",
    "resize_picture",
    "save_facts",
    "write_facts",
    "write_picture",
    "write_pixel_csv",
    "write_pixel_file",
]
