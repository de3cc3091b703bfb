"""The sample images, and images in a folder."""

from collections.abc import Iterator
from pathlib import Path

from measuring import ROOT
from neuralfield.images import ImageData
from neuralfield.images.image_file import read_image
from neuralfield.images.resizing import resize_image

_RESOURCES = ROOT / "workflow" / "resources"
PHOTO = _RESOURCES / "savannah.png"
DRAWING = _RESOURCES / "lion_cub.png"
_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp")


def images_in_folder(
    folder: Path, longest_px: int | None, factor: int
) -> Iterator[tuple[str, ImageData]]:
    """Yield the names and images of a folder, cropped to sides that are multiples of `factor`.

    An image whose longer side is above `longest_px` is first reduced to that side.
    """
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in _SUFFIXES:
            image = read_image(path)
            if longest_px is not None and max(image.width, image.height) > longest_px:
                image = resize_image(image, longest_px)
            width, height = (factor * (side // factor) for side in (image.width, image.height))
            yield path.stem, ImageData(image.pixels[:height, :width], image.mode, image.bit_depth)
