"""Reduce a large image to a size for viewing."""

from pathlib import Path

from entry.job import run_job
from neuralfield.images import Overview, PixelFile, read_facts, write_image
from neuralfield.images.image import CHANNELS

ROWS = 64
"""Number of rows that are read at a time."""


def main(pixels: Path, facts: Path, overview: Path, *, max_megapixels: float = 4.0) -> None:
    """Reduce the pixels of ``unpack.py`` to means over square blocks, and write them as a PNG."""
    is_what = read_facts(facts)["resized"]
    width, height = is_what["width"], is_what["height"]
    whole = PixelFile(pixels, is_what["mode"], is_what["bit_depth"])
    small = Overview(width, height, CHANNELS[whole.mode], max_megapixels)
    for top in range(0, height, ROWS):
        bottom = min(top + ROWS, height)
        small.add(whole.window(0, top, width, bottom).values())
    write_image(overview, small.picture(whole.mode))


if __name__ == "__main__":
    run_job(main)
