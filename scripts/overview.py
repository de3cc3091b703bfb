"""Draw a small picture of a large one, to look at."""

from pathlib import Path
from typing import TYPE_CHECKING

from neuralfield.images import Overview, Picture, read_facts, read_window, write_picture

if TYPE_CHECKING:
    from entry.job import snakemake

ROWS = 64
"""Read at a time."""


def main(pixels: Path, facts: Path, overview: Path, *, max_megapixels: float = 4.0) -> None:
    """Reduce a picture to means over square blocks of pixels.

    Parameters
    ----------
    pixels, facts : Path
        The picture and what it is, see ``unpack.py``.
    overview : Path
        PNG to write.
    max_megapixels : float
        It has this many million pixels at the most.
    """
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
    write_picture(overview, Picture.from_values(small.values(), seen_as, 8))


if __name__ == "__main__":
    from entry.job import run_job

    run_job(
        main,
        snakemake,
        pixels=Path(snakemake.input.pixels),
        facts=Path(snakemake.input.facts),
        overview=Path(snakemake.output.overview),
        max_megapixels=snakemake.params.max_megapixels,
    )
