"""Convert a table of pixels back to the image that it was made from."""

from pathlib import Path

from entry.job import run_job
from neuralfield.images import (
    ImageData,
    image_digest,
    read_facts,
    read_pixel_csv,
    require_image,
    write_image,
)
from neuralfield.system.provenance import made_by_the_workflow


def main(pixels: Path, facts: Path, decoded: Path) -> None:
    """Write the image of a table of pixels, without loss; for `facts` see ``resize.py``."""
    about = read_facts(facts)
    was = about["resized"]
    with made_by_the_workflow(pixels):
        values = read_pixel_csv(pixels)
    require_image(pixels, image_digest(values), about, facts)
    write_image(decoded, ImageData.from_values(values, was["mode"], was["bit_depth"]))


if __name__ == "__main__":
    run_job(main)
