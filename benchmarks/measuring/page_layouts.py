"""Mixed pages, each a drawing with a photograph in it, as references for renders.

Like the sets of drawing_kinds.py, the sets differ in drawings and texts, and also in colours and
places.
"""

from typing import NamedTuple

import numpy as np

from measuring.drawing_kinds import drawing_of
from neuralfield.images import ImageData, resize_image


class PageLayout(NamedTuple):
    """A drawing, its colours, and the place of the photograph in it: left, top, right, bottom."""

    drawing: str
    ink: tuple[float, float, float]
    paper: tuple[float, float, float]
    box: tuple[float, float, float, float]


PAGES = {
    "a": {
        "comic": PageLayout("comic", (0, 0, 0), (1, 1, 1), (0.53, 0.5, 0.96, 0.96)),
        "letter": PageLayout("text", (0.08, 0.1, 0.3), (0.96, 0.94, 0.88), (0.5, 0.3, 0.98, 0.66)),
        "screenshot": PageLayout("circuit", (0.9, 0.85, 0.6), (0.13, 0.16, 0.2), (0, 0, 0.44, 1)),
        "map": PageLayout("map", (0.4, 0.4, 0.4), (0.9, 0.9, 0.9), (0.1, 0.45, 0.9, 1)),
    },
    "b": {
        "comic": PageLayout("comic", (0, 0, 0), (1, 1, 1), (0.04, 0.3, 0.48, 0.96)),
        "letter": PageLayout("text", (0.25, 0.2, 0.15), (0.97, 0.97, 0.97), (0.02, 0.5, 0.6, 0.98)),
        "screenshot": PageLayout("circuit", (0.2, 0.2, 0.3), (0.85, 0.88, 0.93), (0.56, 0, 1, 1)),
        "score": PageLayout("music", (0.1, 0.1, 0.1), (0.93, 0.91, 0.86), (0.1, 0, 0.9, 0.52)),
    },
}
"""The layouts of both sets: a for tuning, and b for evaluation."""


def mixed_page(name: str, kind: str, photograph: ImageData, side_px: int) -> ImageData:
    """Compose a page of a set, `side_px` pixels wide and high, in 8 bits."""
    layout = PAGES[name][kind]
    ink, paper = np.array(layout.ink, np.float32), np.array(layout.paper, np.float32)
    page = ink + (paper - ink) * drawing_of(layout.drawing, name, side_px)
    rows, columns = photograph_place(name, kind, side_px)
    size = columns.stop - columns.start, rows.stop - rows.start
    page[rows, columns] = _cut(photograph, *size).converted("rgb").values()
    return ImageData.from_values(page, "rgb", 8)


def photograph_place(name: str, kind: str, side_px: int) -> tuple[slice, slice]:
    """Return the rows and columns of a page that contain the photograph."""
    left, top, right, bottom = (round(edge * side_px) for edge in PAGES[name][kind].box)
    return slice(top, bottom), slice(left, right)


def _cut(photograph: ImageData, width: int, height: int) -> ImageData:
    """Crop the middle of a photograph to the proportions of a size in pixels, and resize it."""
    scale = min(photograph.width / width, photograph.height / height)
    across, down = int(scale * width), int(scale * height)
    left, top = (photograph.width - across) // 2, (photograph.height - down) // 2
    pixels = photograph.pixels[top : top + down, left : left + across]
    return resize_image(
        ImageData(pixels, photograph.mode, photograph.bit_depth), (width, height), "lanczos"
    )
