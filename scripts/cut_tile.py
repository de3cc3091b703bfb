"""Write one tile of a large picture as a table of pixels, and what it is."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from neuralfield.images import read_facts, read_window, write_facts, write_pixel_csv

if TYPE_CHECKING:
    from entry.job import snakemake


def main(
    pixels: Path, facts: Path, table: Path, tile_facts: Path, *, window: Sequence[int]
) -> None:
    """Write positions and values of a tile's pixels as CSV, as `encode.py` does of a picture.

    Parameters
    ----------
    pixels, facts : Path
        Pixels of the whole picture and what it is, see ``unpack.py``.
    table : Path
        CSV to write; its x and y count from the tile's own top left.
    tile_facts : Path
        JSON to write, as `resize.py` does: a digest of the tile's values is in it.
    window : (left, top, right, bottom)
        Where the tile is, in px.
    """
    is_what = read_facts(facts)["resized"]
    left, top, right, bottom = window
    tile = read_window(pixels, is_what["mode"], is_what["bit_depth"], left, top, right, bottom)
    write_pixel_csv(table, tile)
    write_facts(tile_facts, tile, tile, of_line_art=is_what.get("is_line_art", False))


if __name__ == "__main__":
    from entry.job import run_job

    run_job(
        main,
        snakemake,
        pixels=Path(snakemake.input.pixels),
        facts=Path(snakemake.input.facts),
        table=Path(snakemake.output.pixels),
        tile_facts=Path(snakemake.output.facts),
        window=snakemake.params.window,
    )
