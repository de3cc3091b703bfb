"""Lay out a large picture's pixels so that any part of it can be read alone."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from neuralfield.errors import InputError
from neuralfield.files import write_atomically
from neuralfield.images import (
    Overview,
    Picture,
    choose_mode,
    read_header,
    read_picture_bands,
    write_picture,
    write_pixel_file,
)

if TYPE_CHECKING:
    from job import snakemake


def main(
    picture: Path,
    pixels: Path,
    facts: Path,
    overview: Path,
    *,
    size: list[int],
    mode: str = "auto",
    threshold: float = 0.5,
    overview_megapixels: float = 4.0,
) -> None:
    """Write a picture's pixels uncompressed, what it is, and a small picture of it.

    It is read from top to bottom, and never in memory as a whole, unless its rows are stored in
    another order: see `neuralfield.images.Header`.

    Parameters
    ----------
    picture : Path
    pixels : Path
        .npy to write: uint8 or uint16, shape (height, width, channels).
    facts : Path
        JSON to write, as `resize.py` does.
    overview : Path
        PNG to write.
    size : [int, int]
        Width and height that the tiles were laid out for.
    mode : {"auto", "bilevel", "grey", "rgb", "rgba"}
        What the picture is read as.
    threshold : float
        Where white begins, for bilevel.
    overview_megapixels : float
        The overview is reduced to this many million pixels at the most.

    Raises
    ------
    InputError
        The file is damaged, or another one than the tiles were laid out for.
    """
    header = read_header(picture)
    if [header.width, header.height] != size:
        found, expected = f"{header.width} x {header.height} pixels", " x ".join(map(str, size))
        raise InputError(
            str(picture), found, expected, "it has changed; run the same command again"
        )
    if mode == "auto":
        mode = choose_mode(picture)
    small, last = None, None

    def bands():
        nonlocal small, last
        for last in read_picture_bands(picture, mode, threshold):
            values = last.values()
            if small is None:
                small = Overview(header.width, header.height, last.channels, overview_megapixels)
            small.add(values)
            yield last

    write_pixel_file(pixels, header.width, header.height, bands())
    assert small is not None and last is not None
    overview_mode = "grey" if mode == "bilevel" else mode
    write_picture(overview, Picture.from_values(small.values(), overview_mode, 8))
    described = {"mode": mode, "width": header.width, "height": header.height}
    described |= {"bit_depth": last.bit_depth}
    written = {"source": described, "resized": described}
    write_atomically(facts, (json.dumps(written, indent=2) + "\n").encode())


if __name__ == "__main__":
    from job import run_job

    run_job(
        main,
        snakemake,
        picture=Path(snakemake.input.picture),
        pixels=Path(snakemake.output.pixels),
        facts=Path(snakemake.output.facts),
        overview=Path(snakemake.output.overview),
        overview_megapixels=snakemake.params.overview_megapixels,
        **snakemake.params.settings,
    )
