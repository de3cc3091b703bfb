"""Reduce a large image, to look at."""

from pathlib import Path

from entry.job import run_job
from neuralfield.images import ImageData, Overview, read_facts, read_window, write_image

ROWS = 64
"""Rows that are read at a time."""


def main(pixels: Path, facts: Path, overview: Path, *, max_megapixels: float = 4.0) -> None:
    """Reduce the pixels of ``unpack.py`` to means over square blocks, and write them as a PNG."""
    is_what = read_facts(facts)["resized"]
    width, height = is_what["width"], is_what["height"]
    mode, bit_depth = is_what["mode"], is_what["bit_depth"]
    small = None
    for top in range(0, height, ROWS):
        bottom = min(top + ROWS, height)
        values = read_window(pixels, mode, bit_depth, 0, top, width, bottom).values()
        small = small or Overview(width, height, values.shape[2], max_megapixels)
        small.add(values)
    assert small is not None
    seen_as = "grey" if mode == "bilevel" else mode
    write_image(overview, ImageData.from_values(small.values(), seen_as, 8))


if __name__ == "__main__":
    run_job(main)
