"""Turn a table of pixels back into the picture it was made of."""

from pathlib import Path
from typing import TYPE_CHECKING

from neuralfield.images import (
    Picture,
    picture_digest,
    read_facts,
    read_pixel_csv,
    require_picture,
    write_picture,
)
from neuralfield.system.provenance import made_by_the_workflow

if TYPE_CHECKING:
    from entry.job import snakemake


def main(pixels: Path, facts: Path, decoded: Path) -> None:
    """Write the picture that a table holds, pixel for pixel.

    Parameters
    ----------
    pixels : Path
        CSV with a row for each pixel.
    facts : Path
        JSON that says what the picture was, see ``resize.py``.
    decoded : Path
        PNG to write.
    """
    about = read_facts(facts)
    was = about["resized"]
    with made_by_the_workflow(pixels):
        values = read_pixel_csv(pixels)
    require_picture(pixels, picture_digest(values), about, facts)
    write_picture(decoded, Picture.from_values(values, was["mode"], was["bit_depth"]))


if __name__ == "__main__":
    from entry.job import run_job

    run_job(
        main,
        snakemake,
        pixels=Path(snakemake.input.pixels),
        facts=Path(snakemake.input.facts),
        decoded=Path(snakemake.output.decoded),
    )
