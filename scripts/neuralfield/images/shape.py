"""What a network is told of the picture."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PictureShape:
    """Sides of the training picture in pixels, and values for each pixel (1 to 4)."""

    width: int
    height: int
    channels: int
