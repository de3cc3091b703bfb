"""Measure the gain in dB of renders over the best filter for drawings.

    python benchmarks/drawings.py
    python benchmarks/drawings.py --set b --networks line_art 'line_art steepness=16' --seeds 2
    python benchmarks/drawings.py --set curves --side 1000 --factor 1 --write drawings
    python benchmarks/drawings.py --set b --degradations exact jpeg noise blur filter levels scan

The reference is a drawing of `side` times `factor` pixels; a network is trained on the drawing
reduced by `factor`, in 8 bits, and rendered at the full size. A network is a preset or a network of
config.yaml, followed by changed settings. Settings are tuned on set a and evaluated on the others,
ten kinds of drawings each (measuring/drawing_kinds.py); `curves` has four more. The best filter
of a drawing is the one of Lanczos, bicubic, Lanczos with back-projection, and the two-tone filter,
which has a threefold contrast between ink and paper, that is closest to the reference. Specks and
ringing are explained in measuring/artefacts.py, in levels of 255. The last row of a network has the
means, the smallest gain and the largest specks. With `--seeds`, the mean of several networks is
measured. `--write` writes the references as PNG files, `--save` the renders.

With `--degradations`, training images are degraded as people's are (measuring/degradations.py),
with other ranges of the parameters on each set, and restored before the training.
Filters then get ink and paper stretched to black and white, where that is closer to the reference.
`--no-restore` measures the same without restoring. `--restoration-only` compares restored training
images with the drawing reduced by the box filter, and trains no network.
"""

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from measuring.artefacts import Artefacts
from measuring.command_line import new_parser, start
from measuring.degradations import DEGRADATIONS, degraded
from measuring.drawing_kinds import SETS, drawing_of
from measuring.field_runs import ImagePair
from measuring.measure import print_header, print_row
from measuring.preset_network import PresetNetwork

from neuralfield.images import ImageData, resize_image, write_image
from neuralfield.images.metrics import psnr_db
from neuralfield.images.resizing import ink_and_paper
from neuralfield.images.restoring import restore
from neuralfield.system.device import Device, select_device

_HEADER = (
    *("network", "drawing", "render, dB", "over Lanczos", "over the best filter"),
    *("specks", "ringing", "seconds"),
)


class DrawingScore(NamedTuple):
    """The measurements of a render."""

    render_db: float
    over_lanczos_db: float
    over_best_db: float
    specks: float
    ringing: float
    seconds: float

    def cells(self) -> list[str]:
        """Return the numbers as text for a table."""
        over = f"{self.over_lanczos_db:+.2f}", f"{self.over_best_db:+.2f}"
        artefacts = f"{self.specks:.0f}", f"{self.ringing:.0f}"
        return [f"{self.render_db:.2f}", *over, *artefacts, f"{self.seconds:.1f}"]


def main(arguments: argparse.Namespace) -> None:
    """Print a row for each network and drawing, and the means of each network."""
    networks = [PresetNetwork.read(text) for text in arguments.networks]
    device = select_device(arguments.device)
    kinds = arguments.kinds or SETS[arguments.set]
    pairs = {kind: _pair(kind, arguments) for kind in kinds}
    for folder in filter(None, (arguments.write, arguments.save)):
        folder.mkdir(parents=True, exist_ok=True)
    if arguments.write is not None:
        for kind, pair in pairs.items():
            write_image(arguments.write / f"{kind}.png", pair.truth)
        return
    print(f"{device.name}, {arguments.threads} threads; set {arguments.set}\n")
    if arguments.restoration_only:
        _print_restored(pairs, arguments)
        return
    print_header(*_HEADER)
    if arguments.degradations:
        for network in networks:
            for name in arguments.degradations:
                _print_degraded(network, name, pairs, device, arguments)
        return
    for number, network in enumerate(networks, 1):
        rows = []
        for kind, pair in pairs.items():
            renders, seconds = network.renders(pair, device, arguments.threads, arguments.seeds)
            values = np.asarray(np.mean(renders, axis=0, dtype=np.float32))
            rows.append(_measured(values, pair, arguments.factor, seconds))
            print_row(network.text, kind, *rows[-1].cells())
            if arguments.save is not None:
                found = ImageData.from_values(np.clip(values, 0, 1), "grey", 8)
                write_image(arguments.save / f"{number}_{kind}.png", found)
        _print_means(network.text, rows)


def _pair(kind: str, arguments: argparse.Namespace) -> ImagePair:
    ink, paper = arguments.greys
    drawing = drawing_of(kind, arguments.set, arguments.side * arguments.factor)
    truth = ImageData.from_values(ink + (paper - ink) * drawing, "grey", 8)
    return ImagePair(resize_image(truth, (arguments.side, arguments.side)), truth)


def _print_degraded(
    network: PresetNetwork,
    name: str,
    pairs: dict[str, ImagePair],
    device: Device,
    arguments: argparse.Namespace,
) -> None:
    """Print a row for each drawing with one degradation, and the means."""
    rows, text = [], f"{network.text}, {name}"
    for kind, pair in pairs.items():
        number = SETS[arguments.set].index(kind)
        image, jpeg = degraded(pair.truth.values(), name, arguments.set, number, arguments.side)
        start_s, threads = time.monotonic(), arguments.threads
        restored = restore(image, arguments.restore, jpeg=jpeg, threads=threads)
        restoring_s = time.monotonic() - start_s
        small = image if restored is None else restored.image
        renders, seconds = network.renders(
            ImagePair(small, pair.truth), device, threads, arguments.seeds
        )
        values = np.asarray(np.mean(renders, axis=0, dtype=np.float32))
        filters_db = _filters_db(ImagePair(image, pair.truth))
        rows.append(_score(values, pair.truth, arguments.factor, filters_db, seconds + restoring_s))
        about = "as it is" if restored is None else restored.degradation
        print_row(text, f"{kind}, {about}", *rows[-1].cells())
    _print_means(text, rows)


def _print_restored(pairs: dict[str, ImagePair], arguments: argparse.Namespace) -> None:
    """Print the PSNR and the specks of restored training images, and their means."""
    print_header("degradation", "drawing", "as it is, dB", "restored, dB", "specks")
    for name in arguments.degradations or DEGRADATIONS:
        rows = []
        for kind, pair in pairs.items():
            number = SETS[arguments.set].index(kind)
            image, jpeg = degraded(pair.truth.values(), name, arguments.set, number, arguments.side)
            restored = restore(image, jpeg=jpeg, threads=arguments.threads)
            values = (image if restored is None else restored.image).values()
            truth = pair.small.values()
            specks = Artefacts.of(values, truth, 1).specks
            rows.append((psnr_db(image.values(), truth), psnr_db(values, truth), specks))
            about = "as it is" if restored is None else restored.degradation
            print_row(name, f"{kind}, {about}", *(f"{cell:.1f}" for cell in rows[-1]))
        print_row(f"**{name}**", "mean", *(f"{cell:.1f}" for cell in np.mean(rows, axis=0)))


def _filters_db(pair: ImagePair) -> dict[str, float]:
    """Return the PSNR of filters, as they are or with ink and paper stretched to black and white,
    whichever is closer to the reference."""
    truth, (ink, paper) = pair.truth.values(), ink_and_paper(pair.small.values()[..., 0])
    found = {}
    for filter in pair.filters_db:
        values = pair.enlarged(filter).values()
        stretched = np.clip((values - ink) / (paper - ink), 0, 1)
        found[filter] = max(psnr_db(values, truth), psnr_db(stretched, truth))
    return found


def _measured(values: np.ndarray, pair: ImagePair, factor: int, seconds: float) -> DrawingScore:
    return _score(values, pair.truth, factor, pair.filters_db, seconds)


def _score(
    values: np.ndarray,
    reference: ImageData,
    factor: int,
    filters_db: dict[str, float],
    seconds: float,
) -> DrawingScore:
    truth = reference.values()
    seen = Artefacts.of(values, truth, factor)
    render_db = psnr_db(values, truth)
    over = render_db - filters_db["lanczos"], render_db - max(filters_db.values())
    return DrawingScore(render_db, *over, seen.specks, seen.ringing, seconds)


def _print_means(network: str, rows: list[DrawingScore]) -> None:
    mean = DrawingScore(*np.mean(rows, axis=0).tolist()).cells()
    least_db, most_specks = min(row.over_best_db for row in rows), max(row.specks for row in rows)
    mean[2] += f", least {least_db:+.2f}"
    mean[3] += f", most {most_specks:.0f}"
    print_row(f"**{network}**", "mean", *mean)


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(__doc__, "device", "threads")
    add = parser.add_argument
    add("--set", choices=SETS, default="a", help="a for tuning, b or c for evaluation")
    add("--write", type=Path, metavar="FOLDER", help="write the drawings to this folder, and exit")
    add("--greys", nargs=2, type=float, default=[0, 1], help="values of ink and paper, 0 to 1")
    add("--kinds", nargs="+", help="names of drawings (default: all of the set)")
    add("--networks", nargs="+", default=["line_art"], help="presets, with changed settings")
    add("--degradations", nargs="+", choices=DEGRADATIONS, help="of the training images")
    add("--restore", action=argparse.BooleanOptionalAction, default=True, help="restore them")
    add("--restoration-only", action="store_true", help="measure restored images, without networks")
    add("--seeds", type=int, default=1, help="networks of each kind, whose renders are averaged")
    add("--side", type=int, default=200, help="side of the training images in pixels")
    add("--factor", type=int, default=5, help="how many times larger the renders are")
    add("--save", type=Path, metavar="FOLDER", help="where renders are kept")
    return parser


if __name__ == "__main__":
    start(main, _parser(), blas_threads=1)
