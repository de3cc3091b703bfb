"""Checks for images and renders that would be too large."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from config.sources import Place, WhereIs
from config.wording import as_written
from neuralfield.images.image import ImageShape, target_size
from neuralfield.images.image_file import image_size
from neuralfield.system.errors import ConfigError, NeuralfieldError


def too_large_images(settings: Mapping[str, Any], where_is: WhereIs) -> Iterator[ConfigError]:
    """Yield an error for each image that would be too large at the size that is asked for.

    An image file is opened only if a square of this size would exceed the limit. Files that are too
    large themselves are refused when they are read.
    """
    limit = settings["max_megapixels"]
    for name, image in settings["images"].items():
        size = image.get("size")
        if size is None or "tiles" in image or math.prod(_both_sides(size)) <= 1e6 * limit:
            continue
        try:
            width, height = target_size(image_size(image["path"]), size)
        except NeuralfieldError:  # is reported elsewhere
            continue
        if width * height > 1e6 * limit:
            found = f"{as_written(size)}, which is {width} x {height} pixels"
            expected = f"at most {limit:g} megapixels"
            remedy = "make it smaller, or raise max_megapixels; renders can still be larger"
            yield ConfigError(where_is(("images", name, "size")), found, expected, remedy)


def too_large_renders(settings: Mapping[str, Any], where_is: WhereIs) -> Iterator[ConfigError]:
    """Yield an error for each render that its job would refuse after all training has finished.

    Image files are opened only if a square render of the requested size would exceed the limit.
    """
    render = settings["render"]
    limit = render["max_megapixels"]
    wanted: list[tuple[Place, int, Sequence[float]]] = [
        (("render", "sizes", number), size, (0, 0, 1, 1))
        for number, size in enumerate(render["sizes"])
    ]
    for name, crop in render["crops"].items():
        wanted.append((("render", "crops", name, "size"), crop["size"], crop["box"]))
    for place, size, box in wanted:
        if size**2 <= 1e6 * limit:
            continue
        for image in settings["images"].values():
            width, height = _rendered_px(image, size, box)
            if width * height > 1e6 * limit:
                found = f"{size}, which is {width} x {height} pixels of {image['path']}"
                expected = f"at most {limit:g} megapixels"
                remedy = "make it smaller, or raise render.max_megapixels"
                yield ConfigError(where_is(place), found, expected, remedy)
                break


def _both_sides(size: int | Sequence[int]) -> Sequence[int]:
    """Return the sides of a size in pixels; of a longer side those of a square."""
    return (size, size) if isinstance(size, int) else size


def _rendered_px(image: Mapping[str, Any], longer_px: int, box: Sequence[float]) -> tuple[int, int]:
    """Return the size of a render in the image's proportions; (0, 0) for an unreadable image."""
    from neuralfield.rendering.render import size_for_longer_side

    try:
        own = image_size(image["path"])
    except NeuralfieldError:
        return 0, 0
    left, top, right, bottom = box
    shape = ImageShape(*target_size(own, image.get("size")), channels=1)
    return size_for_longer_side(shape, longer_px, (left, top, right, bottom))
