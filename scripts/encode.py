"""Write an image as a table: one row for each pixel."""

from pathlib import Path

from entry.job import run_job
from neuralfield.images import (
    picture_digest,
    read_facts,
    read_made_picture,
    require_picture,
    write_pixel_csv,
)


def main(resized: Path, facts: Path, pixels: Path) -> None:
    """Write positions and values of an image's pixels as CSV.

    `facts` describe the image, see ``resize.py``: it may have colour channels that hold only greys.
    """
    about = read_facts(facts)
    picture = read_made_picture(resized, about["resized"]["mode"])
    require_picture(resized, picture_digest(picture.values()), about, facts)
    write_pixel_csv(pixels, picture)


if __name__ == "__main__":
    run_job(main)
