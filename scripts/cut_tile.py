"""Write one tile of a large picture as a table of pixels."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from neuralfield.images import read_window, write_pixel_csv

if TYPE_CHECKING:
    from job import snakemake


def main(pixels: Path, facts: Path, table: Path, *, window: Sequence[int]) -> None:
    """Write positions and values of a tile's pixels as CSV, as `encode.py` does of a picture.

    Parameters
    ----------
    pixels, facts : Path
        Pixels of the whole picture and what it is, see ``unpack.py``.
    table : Path
        CSV to write; its x and y count from the tile's own top left.
    window : (left, top, right, bottom)
        Where the tile is, in px.
    """
    facts_found = json.loads(facts.read_text())["resized"]
    left, top, right, bottom = window
    tile = read_window(
        pixels, facts_found["mode"], facts_found["bit_depth"], left, top, right, bottom
    )
    write_pixel_csv(table, tile)


if __name__ == "__main__":
    from job import run_job

    run_job(
        main,
        snakemake,
        pixels=Path(snakemake.input.pixels),
        facts=Path(snakemake.input.facts),
        table=Path(snakemake.output.pixels),
        window=snakemake.params.window,
    )
