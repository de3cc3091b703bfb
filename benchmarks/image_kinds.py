"""Prints the detected kind of image files, and the tones that it is detected from.

    python benchmarks/image_kinds.py *.png *.jpg
    python benchmarks/image_kinds.py *.png --pages --drawings

Each image is reduced to `side` pixels first, as images of users are. `--drawings` adds the drawings
of drawing_kinds.py, also in grey, and `--pages` adds mixed pages that contain the first of the
images. neuralfield.images.kind explains the numbers, which are percentages.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from measuring.command_line import new_parser, start
from measuring.drawing_kinds import KINDS, drawing_of
from measuring.measure import print_header, print_row
from measuring.page_layouts import PAGES, mixed_page

from neuralfield.images import ImageData, read_image, resize_image
from neuralfield.images.kind import ToneCount

_HEADER = "image", "kind", "paper", "agreement", "edges", "other tones"
_SIDE_PX = 800
_GREY_INK, _GREY_PAPER = 0.45, 0.9


def main(arguments: argparse.Namespace) -> None:
    """Print a row for each image."""
    noise = np.random.default_rng(0)
    print_header(*_HEADER)
    for name, image in _images(arguments):
        side = min(arguments.side, max(image.width, image.height))
        values = resize_image(image, side).values()
        noisy = values + noise.normal(0, arguments.noise / 255, values.shape)
        count = ToneCount()
        mode = "grey" if image.mode == "bilevel" else image.mode
        count.see(ImageData.from_values(np.clip(noisy, 0, 1).astype(np.float32), mode, 8))
        tones = count.tones
        shares = (f"{100 * share:.1f}" for share in (tones.agreement, tones.edges, tones.others))
        print_row(name, tones.kind, str(tones.paper), *shares)


def _images(arguments: argparse.Namespace) -> Iterator[tuple[str, ImageData]]:
    for path in arguments.images:
        yield path.stem, read_image(path)
    for name in PAGES:
        for kind in PAGES[name] if arguments.pages else ():
            page = mixed_page(name, kind, read_image(arguments.images[0]), _SIDE_PX)
            yield f"page {name}, {kind}", page
        for kind in KINDS if arguments.drawings else ():
            drawing = drawing_of(kind, name, _SIDE_PX)
            yield f"drawing {name}, {kind}", ImageData.from_values(drawing, "grey", 8)
            grey = _GREY_INK + (_GREY_PAPER - _GREY_INK) * drawing
            yield f"grey drawing {name}, {kind}", ImageData.from_values(grey, "grey", 8)


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(__doc__)
    add = parser.add_argument
    add("images", nargs="+", type=Path, help="image files")
    add("--side", type=int, default=256, help="longer side that images are reduced to, in pixels")
    add("--noise", type=float, default=0, help="standard deviation of noise, in levels of 255")
    add("--pages", action="store_true", help="add pages of mixed kind")
    add("--drawings", action="store_true", help="add drawings")
    return parser


if __name__ == "__main__":
    start(main, _parser())
