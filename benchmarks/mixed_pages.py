"""Measure the gain in dB of renders over filters for the parts of mixed pages.

    python benchmarks/mixed_pages.py kodak/*.png
    python benchmarks/mixed_pages.py *.png --set b --networks siren_footprint quality

A page is a drawing with a photograph in it, of `side` times `factor` pixels, and is the reference.
A network is trained on the reduced page, in 8 bits, and rendered at the full size. A network is a
preset or a network of config.yaml, followed by changed settings. The given photographs are inserted
into the pages of a set in turn. Settings are tuned on set a and evaluated on set b
(measuring/page_layouts.py). Gains over the best filter are given for the whole page, for its
drawing and for its photograph, in dB. Specks are those of the drawing, in levels of 255; see
measuring/artefacts.py.
"""

import argparse
from itertools import cycle
from pathlib import Path

import numpy as np
from measuring.artefacts import Artefacts
from measuring.command_line import new_parser, start
from measuring.field_runs import FILTERS, ImagePair
from measuring.measure import print_header, print_row
from measuring.page_layouts import PAGES, mixed_page, photograph_place
from measuring.preset_network import PresetNetwork

from neuralfield.images import read_image, resize_image
from neuralfield.images.metrics import psnr_db
from neuralfield.system.device import select_device

_HEADER = (
    *("network", "page", "render, dB", "over the best filter", "drawing", "photograph"),
    *("specks", "seconds"),
)


class MixedPage:
    """A page, its training image, and the dB of the best filter in each part of the page."""

    def __init__(self, name: str, kind: str, photograph: Path, side: int, factor: int) -> None:
        truth = mixed_page(name, kind, read_image(photograph), side * factor)
        self.pair = ImagePair(resize_image(truth, (side, side)), truth)
        self._factor = factor
        self._truth = truth.values()
        self._is_photograph = np.zeros((side * factor, side * factor), bool)
        self._is_photograph[photograph_place(name, kind, side * factor)] = True
        filters = [self.parts_db(self.pair.enlarged(filter).values()) for filter in FILTERS]
        self.best_db = np.max(filters, axis=0)

    def parts_db(self, values: np.ndarray) -> list[float]:
        """Return the dB of the whole page, of the drawing and of the photograph."""
        whole = np.ones_like(self._is_photograph)
        parts = (whole, ~self._is_photograph, self._is_photograph)
        return [psnr_db(values[part][None], self._truth[part][None]) for part in parts]

    def specks(self, values: np.ndarray) -> float:
        """Return the specks in the drawing."""
        seen = np.where(self._is_photograph[..., None], self._truth, values)
        return Artefacts.of(seen, self._truth, self._factor).specks


def main(arguments: argparse.Namespace) -> None:
    """Print a row for each network and page, and the means of each network."""
    networks = [PresetNetwork.read(text) for text in arguments.networks]
    device = select_device(arguments.device)
    kinds = zip(arguments.kinds or PAGES[arguments.set], cycle(arguments.photographs), strict=False)
    pages = {
        kind: MixedPage(arguments.set, kind, photograph, arguments.side, arguments.factor)
        for kind, photograph in kinds
    }
    print(f"{device.name}, {arguments.threads} threads; set {arguments.set}\n")
    print_header(*_HEADER)
    for network in networks:
        rows = []
        for kind, page in pages.items():
            (values,), seconds = network.renders(page.pair, device, arguments.threads)
            values = np.clip(values, 0, 1)
            parts_db = page.parts_db(values)
            over_db = parts_db - page.best_db
            rows.append([parts_db[0], *over_db, page.specks(values), seconds])
            print_row(network.text, kind, *_cells(rows[-1]))
        print_row(f"**{network.text}**", "mean", *_cells(np.mean(rows, axis=0).tolist()))


def _cells(numbers: list[float]) -> list[str]:
    render_db, *over_db, specks, seconds = numbers
    gains = [f"{gain:+.2f}" for gain in over_db]
    return [f"{render_db:.2f}", *gains, f"{specks:.0f}", f"{seconds:.0f}"]


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(__doc__, "device", "threads")
    add = parser.add_argument
    add("photographs", nargs="+", type=Path, help="photographs to set into the pages, in turn")
    add("--set", choices=PAGES, default="a", help="a for tuning, b for evaluation")
    add("--kinds", nargs="+", help="kinds of pages (default: all of the set)")
    add(
        "--networks", nargs="+", default=["siren_footprint"], help="networks, with changed settings"
    )
    add("--side", type=int, default=200, help="side of the training images in pixels")
    add("--factor", type=int, default=4, help="how many times larger the renders are")
    return parser


if __name__ == "__main__":
    start(main, _parser(), blas_threads=1)
