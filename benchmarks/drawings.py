"""Measure the gain in dB of renders over the best filter for ten kinds of drawings.

    python benchmarks/drawings.py
    python benchmarks/drawings.py --set b --networks line_art 'line_art steepness=16' --seeds 2

The reference is a drawing of `side` times `factor` pixels; a network is trained on the drawing
reduced by `factor`, in 8 bits, and rendered at the full size. A network is a preset or a network of
config.yaml, followed by changed settings. Settings are tuned on set a and evaluated on set b
(measuring/drawing_kinds.py). `--write` writes a set as PNG files; `--folder` reads them on a
machine without matplotlib and its fonts. The best filter of a drawing is the one of Lanczos,
bicubic, and Lanczos with back-projection that is closest to the reference. Specks and ringing are
explained in measuring/artefacts.py, in levels of 255. The last row of a network has the means, the
smallest gain and the largest specks. With `--seeds`, the mean of several networks is measured.
`--save FOLDER` writes the renders.
"""

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from measuring.artefacts import Artefacts
from measuring.command_line import new_parser, start
from measuring.field_runs import ImagePair, fit_and_render
from measuring.measure import print_header, print_row
from measuring.preset_network import PresetNetwork
from PIL import Image

from neuralfield.images import ImageData, resize_image, write_image
from neuralfield.images.metrics import psnr_db
from neuralfield.system.device import select_device

KINDS = (
    *("text", "gears", "contours", "hatching", "comic"),
    *("engraving", "map", "music", "circuit", "signature"),
)
SETS = ("a", "b", "a_fine", "b_fine")
_FILTERS = ("lanczos", "bicubic", "back_projection")
_HEADER = (
    *("network", "drawing", "render, dB", "best filter, dB", "over it", "specks", "ringing"),
    "seconds",
)


class DrawingScore(NamedTuple):
    """The measurements of a render, or of a filter."""

    render_db: float
    filter_db: float
    specks: float
    ringing: float
    seconds: float

    @property
    def over_db(self) -> float:
        """The gain over the best filter, in dB."""
        return self.render_db - self.filter_db

    def cells(self) -> list[str]:
        """Return the numbers as text for a table."""
        numbers = f"{self.render_db:.2f}", f"{self.filter_db:.2f}", f"{self.over_db:+.2f}"
        return [*numbers, f"{self.specks:.0f}", f"{self.ringing:.0f}", f"{self.seconds:.1f}"]


def main(arguments: argparse.Namespace) -> None:
    """Print a row for each network and drawing, and the means of each network."""
    networks = [PresetNetwork.read(text) for text in arguments.networks]
    device = select_device(arguments.device)
    pairs = {kind: _pair(kind, arguments) for kind in arguments.kinds}
    if arguments.write is not None:
        arguments.write.mkdir(parents=True, exist_ok=True)
        for kind, pair in pairs.items():
            write_image(arguments.write / f"{kind}.png", pair.truth)
        return
    with ThreadPoolExecutor(arguments.threads) as pool:
        filters = dict(zip(pairs, pool.map(_best_filter, pairs.values()), strict=True))
    print(f"{device.name}, {arguments.threads} threads; set {arguments.set}\n")
    print_header(*_HEADER)
    if arguments.save is not None:
        arguments.save.mkdir(parents=True, exist_ok=True)
    for number, network in enumerate(networks, 1):
        rows = []
        for kind, pair in pairs.items():
            values, seconds = _mean_render(network, pair, device, arguments)
            rows.append(_measured(values, pair, filters[kind], arguments.factor, seconds))
            print_row(network.text, kind, *rows[-1].cells())
            if arguments.save is not None:
                found = ImageData.from_values(np.clip(values, 0, 1), "grey", 8)
                write_image(arguments.save / f"{number}_{kind}.png", found)
        _print_means(network.text, rows)


def _pair(kind: str, arguments: argparse.Namespace) -> ImagePair:
    side_px = arguments.side * arguments.factor
    if arguments.folder is not None:
        pixels = np.asarray(Image.open(arguments.folder / f"{kind}.png").convert("L"))
        truth = resize_image(ImageData(pixels[..., None], "grey", 8), (side_px, side_px))
    else:
        from measuring.drawing_kinds import drawing_of  # needs matplotlib's fonts

        ink, paper = arguments.greys
        values = ink + (paper - ink) * drawing_of(kind, arguments.set, side_px)
        truth = ImageData.from_values(values, "grey", 8)
    return ImagePair(resize_image(truth, (arguments.side, arguments.side)), truth)


def _best_filter(pair: ImagePair) -> float:
    return max(pair.filter_db(name) for name in _FILTERS)


def _mean_render(
    network: PresetNetwork, pair: ImagePair, device, arguments: argparse.Namespace
) -> tuple[np.ndarray, float]:
    """Train with each seed; return the mean of the renders, and the seconds of all steps."""
    renders, seconds = [], 0.0
    for seed in range(arguments.seeds):
        field, training = network.settings(pair.small)
        training = {**training, "random_seed": seed}
        found = fit_and_render(pair, field, training, device, "auto", arguments.threads)
        if found.values is None:
            sys.exit(f"{network.text}: diverged with seed {seed}")
        renders.append(found.values)
        seconds += found.seconds
    return np.asarray(np.mean(renders, axis=0, dtype=np.float32)), seconds


def _measured(
    values: np.ndarray, pair: ImagePair, filter_db: float, factor: int, seconds: float
) -> DrawingScore:
    truth = pair.truth.values()
    seen = Artefacts.of(values, truth, factor)
    return DrawingScore(psnr_db(values, truth), filter_db, seen.specks, seen.ringing, seconds)


def _print_means(network: str, rows: list[DrawingScore]) -> None:
    render_db, filter_db, specks, ringing, seconds = np.mean(rows, axis=0).tolist()
    mean = DrawingScore(render_db, filter_db, specks, ringing, seconds).cells()
    least_db, most_specks = min(row.over_db for row in rows), max(row.specks for row in rows)
    mean[2] += f", least {least_db:+.2f}"
    mean[3] += f", most {most_specks:.0f}"
    print_row(f"**{network}**", "mean", *mean)


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(__doc__, "device", "threads")
    add = parser.add_argument
    add("--set", choices=SETS, default="a", help="a for tuning, b for evaluation")
    add("--write", type=Path, metavar="FOLDER", help="write the drawings to this folder, and exit")
    add("--folder", type=Path, help="a folder with the drawings as PNG files")
    add("--greys", nargs=2, type=float, default=[0, 1], help="values of ink and paper, 0 to 1")
    add("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="kinds of drawings")
    add("--networks", nargs="+", default=["line_art"], help="presets, with changed settings")
    add("--seeds", type=int, default=1, help="networks of each kind, whose renders are averaged")
    add("--side", type=int, default=200, help="side of the training images in pixels")
    add("--factor", type=int, default=5, help="how many times larger the renders are")
    add("--save", type=Path, metavar="FOLDER", help="where renders are kept")
    return parser


if __name__ == "__main__":
    start(main, _parser(), blas_threads=1)
