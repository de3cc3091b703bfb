"""Write a picture as a table: one row for each pixel."""

from pathlib import Path
from typing import TYPE_CHECKING

from neuralfield.images import (
    picture_digest,
    read_facts,
    read_made_picture,
    require_picture,
    write_pixel_csv,
)

if TYPE_CHECKING:
    from entry.job import snakemake


def main(resized: Path, facts: Path, pixels: Path) -> None:
    """Write positions and values of a picture's pixels as CSV.

    Parameters
    ----------
    resized : Path
        The picture.
    facts : Path
        JSON that says what it is, see ``resize.py``: a picture may have colour channels that
        happen to hold greys.
    pixels : Path
        CSV to write.
    """
    about = read_facts(facts)
    picture = read_made_picture(resized, about["resized"]["mode"])
    require_picture(resized, picture_digest(picture.values()), about, facts)
    write_pixel_csv(pixels, picture)


if __name__ == "__main__":
    from entry.job import run_job

    run_job(
        main,
        snakemake,
        resized=Path(snakemake.input.resized),
        facts=Path(snakemake.input.facts),
        pixels=Path(snakemake.output.pixels),
    )
