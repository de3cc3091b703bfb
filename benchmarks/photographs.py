"""Measures the gain of networks, single and averaged, over filters for enlarged photographs.

    python benchmarks/photographs.py FOLDER
    python benchmarks/photographs.py FOLDER --seeds 4 --networks quality 'quality steps=500'
    python benchmarks/photographs.py FOLDER --networks quality 'quality steps=500' --mixtures 1+2

Each photograph of the folder, cut to whole training pixels, is a reference. A network is trained on
the photograph reduced by `factor`, once for each seed, and rendered at the full size. A network is
a preset, a network of config.yaml or a type, followed by changed settings. Rows are means over the
photographs, for single networks and for the mean of several networks with different seeds: as
rendered, corrected by back-projection, and refined by similar patches (`residual_scale`). The best
filter of a photograph is the one of Lanczos, bicubic, and Lanczos with back-projection that is
closest to the reference. The same corrections are applied to images enlarged by Lanczos, which
shows their gain without a network. `--mixtures` averages the networks with these numbers, each of
which is the mean over its seeds. Seconds are those of the training steps alone. `--output` writes a
row for each photograph.

The program needs the dependencies of the package, but neither Snakemake nor pandas.
"""

import argparse
import csv
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from measuring.command_line import new_parser, start
from measuring.field_runs import ImagePair, fit_and_render
from measuring.images import images_in_folder
from measuring.measure import print_header, print_row
from measuring.preset_network import PresetNetwork

from neuralfield.engines import ENGINES
from neuralfield.images import resize_image
from neuralfield.images.metrics import psnr_db
from neuralfield.images.resizing import back_projected
from neuralfield.rendering.refining import refined
from neuralfield.system.device import Device, select_device

_FILTERS = ("lanczos", "bicubic", "back_projection")
_NO_NETWORK = "(no network: lanczos)"
_HEADER = (
    *("network", "of seeds", "corrected", "images", "over Lanczos", "over the best filter"),
    *("least of them", "seconds"),
)


class Gain(NamedTuple):
    """The gains in dB of a render of one photograph over filters."""

    image: str
    network: str
    of_seeds: int
    corrected: str
    render_db: float
    over_lanczos_db: float
    over_best_filter_db: float
    seconds: float


@dataclass
class Photograph:
    """A pair of images, the dB of the filters, and the measured gains."""

    name: str
    pair: ImagePair
    device: Device
    threads: int
    gains: list[Gain] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.truth = self.pair.truth.values()
        self.filters_db = {name: self.pair.filter_db(name) for name in _FILTERS}

    def measure(self, network: str, of_seeds: int, values: np.ndarray, seconds: float) -> None:
        """Add the gains of a render: uncorrected, corrected, and refined by similar patches."""
        small = self.pair.small.values()
        channels = (back_projected(values[..., c], small[..., c]) for c in range(small.shape[2]))
        renders = {
            "no": values,
            "yes": np.stack([*channels], axis=2),
            "patches": refined(
                np.clip(values, 0, 1), small, device=self.device, threads=self.threads
            ),
        }
        for corrected, found in renders.items():
            render_db = psnr_db(np.clip(found, 0, 1), self.truth)
            over_lanczos_db = render_db - self.filters_db["lanczos"]
            over_best_db = render_db - max(self.filters_db.values())
            numbers = (render_db, over_lanczos_db, over_best_db, seconds)
            self.gains.append(Gain(self.name, network, of_seeds, corrected, *numbers))


def main(arguments: argparse.Namespace) -> None:
    """Print the mean gains of every network."""
    networks = [PresetNetwork.read(text) for text in arguments.networks]
    mixtures = [[networks[int(n) - 1] for n in text.split("+")] for text in arguments.mixtures]
    device = select_device(arguments.device)
    photographs = list(_photographs(arguments, device))
    print(f"{device.name}, {arguments.threads} threads; {len(photographs)} photographs\n")
    print_header(*_HEADER)
    for name in _FILTERS:
        over_db = [p.filters_db[name] - p.filters_db["lanczos"] for p in photographs]
        best_db = [p.filters_db[name] - max(p.filters_db.values()) for p in photographs]
        _print_means(f"({name})", "", "", over_db, best_db, 0.0)
    for photograph in photographs:
        photograph.measure(_NO_NETWORK, 0, photograph.pair.enlarged("lanczos").values(), 0.0)
    _print_network(_NO_NETWORK, photographs)
    ends_s = time.perf_counter() + arguments.limit_s
    means: dict[PresetNetwork, list[np.ndarray]] = {}
    for network in networks:
        for photograph in photographs:
            if time.perf_counter() > ends_s:
                print(f"no time for all of: {network.text}")
                break
            renders, seconds = _fits(network, photograph.pair, device, arguments)
            _measure_groups(photograph, network.text, renders, seconds)
            means.setdefault(network, []).append(_mean(renders))
        _print_network(network.text, photographs)
        _write(arguments.output, photographs)
    for chosen in mixtures:
        text = " + ".join(network.text for network in chosen)
        # because of the time limit, the last network may not have been measured on all photographs
        parts = zip(*(means.get(network, []) for network in chosen), strict=False)
        for photograph, found in zip(photographs, parts, strict=False):
            photograph.measure(text, arguments.seeds, _mean(found), 0.0)
        _print_network(text, photographs)
    _write(arguments.output, photographs)


def _fits(
    network: PresetNetwork, pair: ImagePair, device: Device, arguments: argparse.Namespace
) -> tuple[list[np.ndarray], float]:
    """Train with each seed; return the renders, and the seconds of all steps together."""
    renders, seconds = [], 0.0
    engine = arguments.engine, arguments.threads
    for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
        # the residual is off, because renders are measured both without and with corrections
        field, training = network.settings(pair.small)
        training = {**training, "residual": False, "random_seed": seed}
        found = fit_and_render(pair, field, training, device, *engine)
        if found.values is None:
            sys.exit(f"{network.text}: diverged with seed {seed}")
        renders.append(found.values)
        seconds += found.seconds
    return renders, seconds


def _measure_groups(
    photograph: Photograph, network: str, renders: list[np.ndarray], seconds: float
) -> None:
    """Measure the means of all disjoint groups of 1, 2, 4 ... renders, and the mean of all."""
    counts = [1 << k for k in range(len(renders).bit_length())]
    for count in dict.fromkeys([*counts, len(renders)]):
        for first in range(0, len(renders) - count + 1, count):
            mean = _mean(renders[first : first + count])
            photograph.measure(network, count, mean, seconds * count / len(renders))


def _mean(renders: Sequence[np.ndarray]) -> np.ndarray:
    return np.asarray(np.mean(renders, axis=0, dtype=np.float32))


def _print_network(network: str, photographs: list[Photograph]) -> None:
    rows: dict[tuple[int, str], dict[str, list[Gain]]] = defaultdict(lambda: defaultdict(list))
    for photograph in photographs:
        for gain in photograph.gains:
            if gain.network == network:
                rows[gain.of_seeds, gain.corrected][gain.image].append(gain)
    for (of_seeds, corrected), gains in rows.items():
        over_db, best_db, seconds = (
            [float(np.mean([getattr(gain, name) for gain in group])) for group in gains.values()]
            for name in ("over_lanczos_db", "over_best_filter_db", "seconds")
        )
        _print_means(network, str(of_seeds), corrected, over_db, best_db, np.mean(seconds))


def _print_means(
    network: str,
    of_seeds: str,
    corrected: str,
    over_lanczos_db: list[float],
    over_best_db: list[float],
    seconds: Any,
) -> None:
    numbers = (f"{np.mean(over_lanczos_db):+.3f}", f"{np.mean(over_best_db):+.3f}")
    least = f"{min(over_best_db):+.2f}"
    count = str(len(over_best_db))
    print_row(network, of_seeds, corrected, count, *numbers, least, f"{seconds:.2f}")


def _write(path: Path | None, photographs: list[Photograph]) -> None:
    if path is not None:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(Gain._fields)
            writer.writerows(gain for photograph in photographs for gain in photograph.gains)


def _photographs(arguments: argparse.Namespace, device: Device) -> Iterator[Photograph]:
    side, factor = arguments.side, arguments.factor
    for name, truth in images_in_folder(arguments.folder, side * factor, factor):
        small = resize_image(truth, (truth.width // factor, truth.height // factor))
        yield Photograph(name, ImagePair(small, truth), device, arguments.threads)


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(__doc__, "device", "threads")
    add = parser.add_argument
    add("folder", type=Path, help="a folder of photographs")
    add("--networks", nargs="+", default=["quality"], help="networks, with changed settings")
    add("--engine", choices=ENGINES, default="auto", help="engine that computes the steps")
    add("--mixtures", nargs="+", default=[], metavar="1+2", help="networks to average")
    add("--seeds", type=int, default=1, help="networks of each kind for each photograph")
    add("--first-seed", type=int, default=0, help="the first random seed")
    add("--side", type=int, default=192, help="longest side of the training images in pixels")
    add("--factor", type=int, default=4, help="how many times larger the renders are")
    add("--limit-s", type=float, default=np.inf, help="seconds after which no further fit begins")
    add("--output", type=Path, help="CSV with the gains of each photograph")
    return parser


if __name__ == "__main__":
    start(main, _parser(), blas_threads=1)
