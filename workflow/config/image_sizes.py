"""Checks for renders that would be too large."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from config.wording import Place, WhereIs
from neuralfield.images.image import ImageShape, target_size
from neuralfield.images.image_file import image_size
from neuralfield.system.errors import ConfigError, NeuralfieldError


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
