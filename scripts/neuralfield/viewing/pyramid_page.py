"""The page that shows a Deep Zoom pyramid in its folder, without internet."""

from pathlib import Path

from neuralfield.rendering.pyramid import OVERLAP_PX, TILE_PX
from neuralfield.viewing.template import load_template, words_of

_TEMPLATE = Path(__file__).parent / "template" / "pyramid.html.j2"


def pyramid_page(image: str, field: str, width: int, height: int, suffix: str) -> str:
    """Return the page of a pyramid, whose tiles are in the folder ``image_files`` next to it.

    `width` and `height` are the sides of the whole image in pixels, and `suffix` is the file suffix
    of its tiles.
    """
    described = {
        "width": width,
        "height": height,
        "tile": TILE_PX,
        "overlap": OVERLAP_PX,
        "suffix": suffix,
    }
    return load_template(_TEMPLATE).render(title=words_of(image), field=field, pyramid=described)
