"""Find the edges of an image."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from entry.job import run_job
from neuralfield.images import (
    ImageData,
    PixelFile,
    convert_values,
    image_digest,
    read_facts,
    read_made_image,
    require_image,
    write_bands,
)
from neuralfield.images.edges import EdgeFilter, GreyRows
from neuralfield.system.errors import InputError
from neuralfield.system.files import replacing
from neuralfield.system.provenance import remedy_for


def main(
    image: Path,
    facts: Path,
    edges: Path,
    raw: Path,
    *,
    sigma: float,
    kernel_size: int | None = None,
    bit_depth: int = 8,
) -> None:
    """Convert an image to grey, and filter it with the Laplacian of a Gaussian.

    `image` is the training image as a PNG, or the pixels that ``unpack.py`` writes (.npy); for
    `facts` see ``resize.py``. The greys of `EdgeFilter.levels` are written to the PNG `edges`, and
    the signed values to `raw`, float32 in NumPy's format. `sigma` and `kernel_size` are in pixels.
    """
    kernel = EdgeFilter(sigma, kernel_size)
    about = read_facts(facts)
    width, height = about["resized"]["width"], about["resized"]["height"]
    rows = _grey_rows(image, about, facts)
    header = {"descr": "<f4", "fortran_order": False, "shape": (height, width)}
    with replacing(raw) as temporary, temporary.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)

        def levels() -> Iterator[np.ndarray]:
            for band in kernel.bands(rows, height, width):
                file.write(np.ascontiguousarray(band, "<f4").data)
                light = kernel.levels(band)[..., None]
                yield ImageData.from_values(light, "grey", bit_depth).pixels

        write_bands(edges, levels(), width, height, bit_depth)


def _grey_rows(path: Path, about: dict[str, dict[str, Any]], facts: Path) -> GreyRows:
    """Return a function that reads rows of an image in grey: its luma, composited over white."""
    is_what = about["resized"]
    width, height, mode = is_what["width"], is_what["height"], is_what["mode"]
    if path.suffix == ".npy":
        window = PixelFile(path, mode, is_what["bit_depth"]).window
    else:
        whole = read_made_image(path, mode)
        require_image(path, image_digest(whole.values()), about, facts)
        if (whole.width, whole.height) != (width, height):
            found = f"has {whole.width} x {whole.height} pixels"
            expected = f"{width} x {height} pixels, the size in picture.json"
            raise InputError(str(path), found, expected, remedy_for(path))

        def window(left: int, top: int, right: int, bottom: int) -> ImageData:
            return ImageData(whole.pixels[top:bottom, left:right], whole.mode, whole.bit_depth)

    def rows(top: int, bottom: int) -> np.ndarray:
        return convert_values(window(0, top, width, bottom).values(), 1)[..., 0]

    return rows


if __name__ == "__main__":
    run_job(main, lambda job: job.params.settings)
