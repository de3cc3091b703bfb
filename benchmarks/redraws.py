"""Compares enlarged renders with the true image and with filters.

    python benchmarks/redraws.py
    python benchmarks/redraws.py --pictures *.png --side 192 --factor 4

The reference is an image of `side` times `factor` pixels: line drawings, or `--pictures`. A network
is trained on the reduced image and rendered at the full size. Networks are those of a config:
`--config FILE --fields NAME ...`. Specks and ringing are explained in measuring/artefacts.py; they
are in levels of 255, and the values after the slash are those of Lanczos. `--save FOLDER` writes
all redraws for inspection.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from measuring import ROOT
from measuring.artefacts import Artefacts
from measuring.command_line import new_parser, start
from measuring.config_networks import ConfigNetworks
from measuring.field_runs import ImagePair, RenderedFit, fit_and_render
from measuring.line_drawings import DRAWINGS, line_drawing
from measuring.measure import print_header, print_row

from neuralfield.images import ImageData
from neuralfield.images.image_file import read_image, write_image
from neuralfield.images.resizing import resize_image
from neuralfield.system.device import select_device

_HEADER = (
    *("network", "image", "redraw, dB", "over Lanczos", "over bicubic", "specks", "ringing"),
    *("fit, dB", "seconds", "of all cores"),
)


def main(arguments: argparse.Namespace) -> None:
    """Print a row for each network and image, and their means."""
    networks = ConfigNetworks.chosen(arguments)
    pairs = image_pairs(arguments)
    device = select_device(arguments.device)
    if arguments.save is not None:
        arguments.save.mkdir(parents=True, exist_ok=True)
    print(f"{device.name}, {arguments.threads} threads; {arguments.side} px x {arguments.factor}\n")
    print_header(*_HEADER)
    for name in networks.names:
        rows = []
        for image, pair in pairs.items():
            field, training = networks.settings(name, pair.small)
            found = fit_and_render(pair, field, training, device, "auto", arguments.threads)
            rows.append(_numbers(found, pair, arguments.factor))
            print_row(name, image, *_cells(rows[-1]))
            if arguments.save is not None and found.values is not None:
                mode = "grey" if pair.truth.mode == "bilevel" else pair.truth.mode
                redraw = ImageData.from_values(found.values, mode, 8)
                write_image(arguments.save / f"{name}_{image}.png", redraw)
        print_row(f"**{name}**", "mean", *_cells(np.nanmean(rows, axis=0).tolist()))


def _numbers(found: RenderedFit, pair: ImagePair, factor: int) -> list[float]:
    """Return dB and gains of the redraw, the artefacts of both images, the fit, and both times."""
    over = [found.render_db - pair.filter_db(name) for name in ("lanczos", "bicubic")]
    artefacts: list[float] = []
    for values in (found.values, pair.enlarged("lanczos").values()):
        if values is None:
            artefacts += [np.nan, np.nan]
        else:
            seen = Artefacts.of(values, pair.truth.values(), factor)
            artefacts += [seen.specks, seen.ringing]
    return [found.render_db, *over, *artefacts, found.fit_db, found.seconds, found.core_seconds]


def _cells(numbers: list[float]) -> list[str]:
    render_db, lanczos_db, bicubic_db, *artefacts, fit_db, seconds, core_seconds = numbers
    specks, ringing, *lanczos = ("-" if np.isnan(n) else f"{n:.0f}" for n in artefacts)
    return [
        *(f"{render_db:.2f}", f"{lanczos_db:+.2f}", f"{bicubic_db:+.2f}"),
        *(f"{specks} / {lanczos[0]}", f"{ringing} / {lanczos[1]}"),
        *(f"{fit_db:.1f}", f"{seconds:.1f}", f"{core_seconds:.1f}"),
    ]


def image_pairs(arguments: argparse.Namespace) -> dict[str, ImagePair]:
    """Return training images and true images by name, for the options of `add_image_options`."""
    side, factor = arguments.side, arguments.factor
    if arguments.pictures:
        sources = {path.stem: read_image(path) for path in arguments.pictures}
    else:
        drawings = {name: line_drawing(name, side * factor) for name in arguments.drawings}
        sources = {n: ImageData.from_values(values, "grey", 16) for n, values in drawings.items()}
    pairs = {}
    for name, source in sources.items():
        truth = resize_image(source, side * factor)
        small = (truth.width // factor, truth.height // factor)
        if (factor * small[0], factor * small[1]) != (truth.width, truth.height):
            sys.exit(f"{name}: {truth.width} x {truth.height} pixels do not divide by {factor}")
        pairs[name] = ImagePair(resize_image(truth, small), truth)
    return pairs


def add_image_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose the training images and the size of their redraws."""
    add = parser.add_argument
    add("--pictures", nargs="+", type=Path, default=[], help="image files (default: line drawings)")
    add("--drawings", nargs="+", choices=DRAWINGS, default=list(DRAWINGS), help="line drawings")
    add("--side", type=int, default=200, help="longer side of the training images in pixels")
    add("--factor", type=int, default=5, help="how many times larger the redraws are")


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(__doc__, "device", "threads")
    add = parser.add_argument
    ConfigNetworks.add_options(parser, ROOT / "config.yaml")
    add_image_options(parser)
    add("--save", type=Path, metavar="FOLDER", help="where redraws are kept")
    return parser


if __name__ == "__main__":
    start(main, _parser(), blas_threads=1)
