"""Write the pixels of a large image to a file of which any part can be read separately."""

from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

from entry.job import run_job
from neuralfield.images import (
    ImageData,
    PixelFile,
    choose_mode,
    read_header,
    read_image_bands,
    save_facts,
    write_pixel_file,
)
from neuralfield.images.colour import Report, log
from neuralfield.images.image_facts import kind_facts, tile_digest
from neuralfield.images.kind import ToneCount
from neuralfield.images.tiling import Tiling
from neuralfield.system.errors import InputError
from neuralfield.system.read_ahead import read_ahead

BANDS_AHEAD = 2
"""Number of bands per thread that are in memory at the same time."""


def main(
    image: Path,
    pixels: Path,
    facts: Path,
    *,
    tiling: Mapping[str, int],
    mode: str = "auto",
    threshold: float = 0.5,
    threads: int = 1,
    report: Report = log.info,
) -> None:
    """Write the pixels of an image to an uncompressed .npy file, and describe it.

    The array is uint8 or uint16, with the shape (height, width, channels). `facts` is as in
    ``resize.py``, with a digest of each tile. The image is read from top to bottom and is never in
    memory as a whole, unless its rows are stored in another order: see
    `neuralfield.images.Header`. An image whose size differs from that of `tiling` is refused.
    """
    tiles, header = Tiling(**tiling), read_header(image)
    if (header.width, header.height) != (tiles.width, tiles.height):
        found = f"{header.width} x {header.height} pixels"
        expected = f"{tiles.width} x {tiles.height}"
        raise InputError(str(image), found, expected, "it has changed; run the same command again")
    if mode == "auto":
        mode = choose_mode(image)
    with ThreadPoolExecutor(threads) as pool:
        tones, seen = ToneCount(), deque[Future[ToneCount]]()

        def counted(bands: Iterator[ImageData]) -> Iterator[ImageData]:
            """Yield bands, while threads count the tones of earlier bands."""
            for band in bands:
                seen.append(pool.submit(ToneCount().see, band))
                yield band
                if len(seen) > BANDS_AHEAD * threads:
                    tones.add(seen.popleft().result())

        bands = read_ahead(read_image_bands(image, mode, threshold, report))
        bit_depth = write_pixel_file(pixels, header.width, header.height, counted(bands))
        for count in seen:
            tones.add(count.result())
        digest_of = partial(tile_digest, PixelFile(pixels, mode, bit_depth))
        digests = dict(zip((t.name for t in tiles), pool.map(digest_of, tiles), strict=True))
    described = {"mode": mode, "width": header.width, "height": header.height}
    described |= {"bit_depth": bit_depth}
    resized = described | kind_facts(tones.kind)
    save_facts(facts, {"source": described, "resized": resized, "tiles": digests})


if __name__ == "__main__":
    run_job(main)
