"""Lay out a large picture's pixels so that any part of it can be read alone."""

from pathlib import Path
from typing import TYPE_CHECKING

from neuralfield.images import (
    choose_mode,
    read_header,
    read_picture_bands,
    save_facts,
    write_pixel_file,
)
from neuralfield.images.colour import Report, log
from neuralfield.images.facts import ToneCount
from neuralfield.system.errors import InputError

if TYPE_CHECKING:
    from entry.job import snakemake


def main(
    picture: Path,
    pixels: Path,
    facts: Path,
    *,
    size: list[int],
    mode: str = "auto",
    threshold: float = 0.5,
    report: Report = log.info,
) -> None:
    """Write a picture's pixels uncompressed, and what it is.

    It is read from top to bottom, and never in memory as a whole, unless its rows are stored in
    another order: see `neuralfield.images.Header`.

    Parameters
    ----------
    picture : Path
    pixels : Path
        .npy to write: uint8 or uint16, shape (height, width, channels).
    facts : Path
        JSON to write, as `resize.py` does.
    size : [int, int]
        Width and height that the tiles were laid out for.
    mode : {"auto", "bilevel", "grey", "rgb", "rgba"}
        What the picture is read as.
    threshold : float
        Where white begins, for bilevel.
    report : callable
        Told what was done to the colours.

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
    tones = ToneCount()
    bands = map(tones.see, read_picture_bands(picture, mode, threshold, report))
    bit_depth = write_pixel_file(pixels, header.width, header.height, bands)
    described = {"mode": mode, "width": header.width, "height": header.height}
    described |= {"bit_depth": bit_depth}
    seen = {"is_line_art": tones.is_line_art}
    save_facts(facts, {"source": described, "resized": described | seen})


if __name__ == "__main__":
    from entry.job import reporter, run_job

    run_job(
        main,
        snakemake,
        report=reporter(snakemake),
        picture=Path(snakemake.input.picture),
        pixels=Path(snakemake.output.pixels),
        facts=Path(snakemake.output.facts),
        **snakemake.params.settings,
    )
