"""Write an image as a table with one row for each pixel."""

from pathlib import Path

from entry.job import run_job
from neuralfield.images import (
    image_digest,
    read_facts,
    read_made_image,
    require_image,
    write_pixel_csv,
)


def main(resized: Path, facts: Path, pixels: Path) -> None:
    """Write positions and values of an image's pixels as CSV; for `facts` see ``resize.py``."""
    about = read_facts(facts)
    image = read_made_image(resized, about["resized"]["mode"])
    require_image(resized, image_digest(image.values()), about, facts)
    write_pixel_csv(pixels, image)


if __name__ == "__main__":
    run_job(main)
