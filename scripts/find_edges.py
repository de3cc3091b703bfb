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
from neuralfield.system.files import replacing


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
    mode, bit_depth = about["resized"]["mode"], about["resized"]["bit_depth"]
    if path.suffix == ".npy":
        pixels = PixelFile(path, mode, bit_depth)
        width = about["resized"]["width"]
        return lambda top, bottom: _grey(pixels.window(0, top, width, bottom).values())
    values = read_made_image(path, mode).values()
    require_image(path, image_digest(values), about, facts)
    return lambda top, bottom: _grey(values[top:bottom])


def _grey(values: np.ndarray) -> np.ndarray:
    return convert_values(values, 1)[..., 0]


if __name__ == "__main__":
    run_job(main)
