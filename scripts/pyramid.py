"""Render a network as a pyramid of tiles with a page to zoom into it, or as a large TIFF."""

from pathlib import Path
from typing import Any

from entry.job import run_job
from neuralfield.images import read_facts
from neuralfield.images.image_facts import kind_in
from neuralfield.images.kind import Kind
from neuralfield.rendering.pyramid import OVERLAP_PX, TILE_PX, write_pyramid, write_tiff
from neuralfield.rendering.render import size_for_longer_side
from neuralfield.system.device import select_device
from neuralfield.system.files import write_atomically
from neuralfield.tasks.image.mosaic import load_trained
from neuralfield.viewing.template import TEMPLATES, load_template, words_of


def main(
    model: Path,
    *,
    image: str,
    field: str,
    pyramid: Path | None = None,
    tiff: Path | None = None,
    size: int | str | None = None,
    kind: Kind = Kind.PHOTOGRAPH,
    samples: int | str = "auto",
    bit_depth: int = 8,
    device: str = "auto",
    threads: int = 1,
) -> None:
    """Render with `size` pixels on the longer side, by default the image's own, in bounded memory.

    A Deep Zoom pyramid is written into the folder `pyramid`, with an ``index.html`` that shows it
    without internet access. The tiles are JPEG files for photographs without transparency, and PNG
    files for other kinds of images. The file `tiff` is a BigTIFF.
    """
    network = load_trained(model)
    sides = (network.width, network.height)
    width, height = size_for_longer_side(network, int(size or max(sides)))
    options: dict[str, Any] = {"samples": samples, "threads": threads}
    place = select_device(device)
    if tiff:
        write_tiff(network, tiff, width, height, device=place, bit_depth=bit_depth, **options)
    if pyramid:
        suffix = ".jpg" if kind == Kind.PHOTOGRAPH and network.channels < 4 else ".png"
        write_pyramid(network, pyramid, width, height, suffix=suffix, device=place, **options)
        described = {"width": width, "height": height, "suffix": suffix}
        described |= {"tile": TILE_PX, "overlap": OVERLAP_PX}
        template = load_template(TEMPLATES / "pyramid.html.j2")
        page = template.render(title=words_of(image), field=field, pyramid=described)
        write_atomically(pyramid / "index.html", page.encode())


if __name__ == "__main__":
    run_job(main, lambda job: {"kind": kind_in(read_facts(Path(job.input.facts)))})
