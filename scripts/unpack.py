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
from neuralfield.images.facts import TileDigests, kind_facts
from neuralfield.images.kind import ToneCount
from neuralfield.images.tiling import Tiling
from neuralfield.system.errors import InputError


def main(
    image: Path,
    pixels: Path,
    facts: Path,
    *,
    tiling: Tiling,
    mode: str = "auto",
    threshold: float = 0.5,
    report: Report = log.info,
) -> None:
    """Write the pixels of an image uncompressed, uint8 or uint16 of shape (height, width, channels)
    in .npy, and describe it as `resize.py` does.

    It is read from top to bottom, and never in memory as a whole, unless its rows are stored in
    another order: see `neuralfield.images.Header`. `facts` has a digest of each tile. An image of
    another size than that of `tiling` is refused.
    """
    header = read_header(image)
    if (header.width, header.height) != (tiling.width, tiling.height):
        found = f"{header.width} x {header.height} pixels"
        expected = f"{tiling.width} x {tiling.height}"
        raise InputError(str(image), found, expected, "it has changed; run the same command again")
    if mode == "auto":
        mode = choose_mode(image)
    tones, digests = ToneCount(), TileDigests(tiling)
    bands = map(digests.see, map(tones.see, read_image_bands(image, mode, threshold, report)))
    bit_depth = write_pixel_file(pixels, header.width, header.height, bands)
    described = {"mode": mode, "width": header.width, "height": header.height}
    described |= {"bit_depth": bit_depth}
    resized = described | kind_facts(tones.kind)
    save_facts(facts, {"source": described, "resized": resized, "tiles": digests.described()})


if __name__ == "__main__":
    run_job(
        main,
        lambda job: {
            **job.params.settings,
            "tiling": Tiling(**job.params.tiling),
            "report": reporter(job),
        },
    )
