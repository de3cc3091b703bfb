"""Render a network at any number of sizes; renders that were made before are restored."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from entry.job import run_job
from neuralfield.rendering.render import render_to_png, size_for_longer_side
from neuralfield.system.copies import FOLDER_NAME, Copies
from neuralfield.system.device import select_device
from neuralfield.system.errors import ConfigError
from neuralfield.system.provenance import sha256_of
from neuralfield.tasks.image.mosaic import load_trained

log = logging.getLogger(__name__)


def main(
    model: Path,
    renders: Path | list[Path],
    *,
    parts: Sequence[Mapping[str, Any]],
    samples: int | str = "auto",
    bit_depth: int = 8,
    paper: bool = True,
    max_megapixels: float = 400.0,
    device: str = "auto",
    threads: int = 1,
    version: str = "",
) -> None:
    """Render an image, or parts of it, in its own proportions, as PNGs in one folder.

    `parts` has for each render the longer side in pixels, ``size``, and the part of the image,
    ``box``. Without `paper`, that of drawings is transparent. A render above `max_megapixels` is
    refused. Renders of another `version` of the project are made again.
    """
    network = load_trained(model)
    place = select_device(device)
    options: dict[str, Any] = {"samples": samples, "bit_depth": bit_depth, "paper": paper}
    options["threads"] = threads
    common = (samples, bit_depth, paper, place.kind, version, sha256_of(model))
    paths = [renders] if isinstance(renders, Path) else renders
    for path, part in zip(paths, parts, strict=True):
        left, top, right, bottom = part["box"]
        box = (left, top, right, bottom)
        width, height = size_for_longer_side(network, part["size"], box)
        if width * height > 1e6 * max_megapixels:
            raise ConfigError(
                str(path),
                f"{width} x {height} pixels",
                f"at most {max_megapixels:g} megapixels",
                "render it at a smaller size, or raise render.max_megapixels",
            )
        made_from = repr((part["size"], box, *common))
        copies = Copies(path.parent / FOLDER_NAME, path.name, made_from, log.info, as_links=True)
        if copies.restore({path.name: path}):
            continue
        render_to_png(network, path, width, height, device=place, box=box, **options)
        copies.store({path.name: path})


if __name__ == "__main__":
    run_job(main)
