"""Write one tile of a large image as a table of pixels."""

from collections.abc import Sequence
from pathlib import Path

from entry.job import run_job
from neuralfield.images import read_facts, read_window, write_facts, write_pixel_csv
from neuralfield.images.facts import kind_in


def main(
    pixels: Path, facts: Path, table: Path, tile_facts: Path, *, window: Sequence[int]
) -> None:
    """Write the pixels of a tile as CSV, as `encode.py` does for an image, and describe the tile.

    `window` is the tile's left, top, right and bottom in the pixels of the image that ``unpack.py``
    wrote. In `table`, x and y count from the tile's own top left.
    """
    about = read_facts(facts)
    is_what = about["resized"]
    left, top, right, bottom = window
    tile = read_window(pixels, is_what["mode"], is_what["bit_depth"], left, top, right, bottom)
    write_pixel_csv(table, tile)
    write_facts(tile_facts, tile, tile, kind=kind_in(about))


if __name__ == "__main__":
    run_job(main)
