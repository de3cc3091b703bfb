"""Write the pixels of a large image so that any part of it can be read alone."""

from pathlib import Path

from entry.job import reporter, run_job
from neuralfield.images import (
    choose_mode,
    read_header,
    read_image_bands,
    save_facts,
    write_pixel_file,
)
from neuralfield.images.colour import Report, log
from neuralfield.images.facts import kind_facts
from neuralfield.images.kind import ToneCount
from neuralfield.system.errors import InputError


def main(
    image: Path,
    pixels: Path,
    facts: Path,
    *,
    size: list[int],
    mode: str = "auto",
    threshold: float = 0.5,
    report: Report = log.info,
) -> None:
    """Write the pixels of an image uncompressed, uint8 or uint16 of shape (height, width, channels)
    in .npy, and describe it as `resize.py` does.

    It is read from top to bottom, and never in memory as a whole, unless its rows are stored in
    another order: see `neuralfield.images.Header`. `size` is the width and height that the tiles
    were laid out for; another image is refused.
    """
    header = read_header(image)
    if [header.width, header.height] != size:
        found, expected = f"{header.width} x {header.height} pixels", " x ".join(map(str, size))
        raise InputError(str(image), found, expected, "it has changed; run the same command again")
    if mode == "auto":
        mode = choose_mode(image)
    tones = ToneCount()
    bands = map(tones.see, read_image_bands(image, mode, threshold, report))
    bit_depth = write_pixel_file(pixels, header.width, header.height, bands)
    described = {"mode": mode, "width": header.width, "height": header.height}
    described |= {"bit_depth": bit_depth}
    resized = described | kind_facts(tones.kind)
    save_facts(facts, {"source": described, "resized": resized})


if __name__ == "__main__":
    run_job(main, lambda job: {**job.params.settings, "report": reporter(job)})
