"""Draw the sample images: `lion_cub`, a line drawing, and `savannah`, a painting.

Without arguments, the two images shipped in this folder are made again, byte for byte. Both
are made of curves, so they can be drawn at any other size, too:

    python workflow/resources/draw_samples.py --picture lion_cub --width 2370 --out cub.png
"""

import argparse
from pathlib import Path

import numpy as np
from lion_cub import draw_lion_cub
from PIL import Image
from savannah import draw_savannah

HERE = Path(__file__).resolve().parent
IMAGES = {"lion_cub": draw_lion_cub, "savannah": draw_savannah}
# Shipped images: name -> (width in pixels, bilevel).
SHIPPED = {"lion_cub": (474, True), "savannah": (480, False)}


def to_image(image, bilevel=False):
    """Convert an image in [0, 1], grey or colour, to 8 bits per channel.

    With `bilevel`, convert a grey image to black and white; values from 0.5 on are white.
    """
    if bilevel:
        return Image.fromarray(image >= 0.5)
    return Image.fromarray(np.round(image * 255).astype(np.uint8))


def save_image(name, width_px, bilevel, path):
    """Draw one image and write it as a PNG file."""
    to_image(IMAGES[name](width_px), bilevel).save(path, format="PNG", optimize=True)


def parse_arguments(arguments=None):
    """Parse the command line."""
    parser = argparse.ArgumentParser(description="Draw the sample images.")
    parser.add_argument("--picture", choices=IMAGES, help="which to draw (default: all shipped)")
    parser.add_argument("--width", type=int, metavar="PX", help="width (default: as shipped)")
    parser.add_argument("--bilevel", action="store_true", help="black and white (lion_cub only)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="PNG file to write")
    options = parser.parse_args(arguments)
    if options.picture is None and (options.width or options.bilevel or options.out):
        parser.error("--width, --bilevel and --out need --picture")
    if options.picture is not None and options.out is None:
        parser.error("--picture needs --out")
    if options.width is not None and options.width < 1:
        parser.error("--width must be positive")
    if options.bilevel and options.picture != "lion_cub":
        parser.error("--bilevel is for lion_cub")
    return options


def main():
    """Draw the images that the command line requests."""
    options = parse_arguments()
    if options.picture is None:
        for name, (width_px, bilevel) in SHIPPED.items():
            save_image(name, width_px, bilevel, HERE / f"{name}.png")
    else:
        width_px = options.width or SHIPPED[options.picture][0]
        save_image(options.picture, width_px, options.bilevel, options.out)


if __name__ == "__main__":
    main()
