"""Measures the gain of networks, single and averaged, over filters for enlarged photographs.

    python benchmarks/photographs.py FOLDER
    python benchmarks/photographs.py FOLDER --seeds 4 --networks quality 'quality steps=500'

Each photograph of the folder, cut to whole training pixels, is a reference. A network is trained on
the photograph reduced by `factor`, once for each seed, and rendered at the full size. A network is
a preset, a network of config.yaml or a type, followed by changed settings. Rows are means over the
photographs, for single networks and for the mean of several networks with different seeds: as
rendered, corrected by back-projection, and refined by similar patches (`residual_scale`). The best
filter of a photograph is the one of Lanczos, bicubic, and Lanczos with back-projection that is
closest to the reference. The same corrections are applied to images enlarged by Lanczos, which
shows their gain without a network. Seconds are those of the training steps alone. `--output` writes
a row for each photograph.

The program needs the dependencies of the package, but neither Snakemake nor pandas.
"""

import argparse
import csv
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
from measuring.command_line import new_parser, start
from measuring.field_runs import FILTERS, ImagePair
from measuring.images import images_in_folder
from measuring.measure import print_header, print_row
from measuring.preset_network import PresetNetwork

from neuralfield.images import resize_image
from neuralfield.images.metrics import psnr_db
from neuralfield.images.resizing import back_projected
from neuralfield.rendering.refining import refined
from neuralfield.system.device import Device, select_device

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


class Photograph:
    """A pair of images, and the gains of renders."""

    def __init__(self, name: str, pair: ImagePair, device: Device, threads: int) -> None:
        self.pair, self.gains = pair, list[Gain]()
        self._name, self._device, self._threads = name, device, threads

    def measure(self, network: str, of_seeds: int, values: np.ndarray, seconds: float) -> None:
        """Add the gains of a render: uncorrected, corrected, and refined by similar patches."""
        small, clipped = self.pair.small.values(), np.clip(values, 0, 1)
        channels = [back_projected(values[..., c], small[..., c]) for c in range(small.shape[2])]
        patches = refined(clipped, small, device=self._device, threads=self._threads)
        renders = {"no": clipped, "yes": np.stack(channels, axis=2), "patches": patches}
        for corrected, found in renders.items():
            render_db = psnr_db(np.clip(found, 0, 1), self.pair.truth.values())
            over_lanczos_db = render_db - self.pair.filters_db["lanczos"]
            numbers = (render_db, over_lanczos_db, render_db - self.pair.best_filter_db, seconds)
            self.gains.append(Gain(self._name, network, of_seeds, corrected, *numbers))


def main(arguments: argparse.Namespace) -> None:
    """Print the mean gains of every network."""
    networks = [PresetNetwork.read(text) for text in arguments.networks]
    device, factor = select_device(arguments.device), arguments.factor
    photographs = []
    for name, truth in images_in_folder(arguments.folder, arguments.side * factor, factor):
        small = resize_image(truth, (truth.width // factor, truth.height // factor))
        photographs.append(Photograph(name, ImagePair(small, truth), device, arguments.threads))
    print(f"{device.name}, {arguments.threads} threads; {len(photographs)} photographs\n")
    print_header(*_HEADER)
    for name in FILTERS:
        filters = [photograph.pair.filters_db for photograph in photographs]
        over_db = [found[name] - found["lanczos"] for found in filters]
        best_db = [found[name] - max(found.values()) for found in filters]
        _print_means((f"({name})", "", ""), over_db, best_db, 0.0)
    for photograph in photographs:
        photograph.measure(_NO_NETWORK, 0, photograph.pair.enlarged("lanczos").values(), 0.0)
    _print_network(_NO_NETWORK, photographs)
    for network in networks:
        for photograph in photographs:
            # the residual is off, because renders are measured both without and with corrections
            renders, seconds = network.renders(
                photograph.pair, device, arguments.threads, arguments.seeds, residual=False
            )
            _measure_groups(photograph, network.text, renders, seconds)
        _print_network(network.text, photographs)
        _write(arguments.output, photographs)


def _measure_groups(
    photograph: Photograph, network: str, renders: list[np.ndarray], seconds: float
) -> None:
    """Measure the means of all disjoint groups of 1, 2, 4 ... renders, and the mean of all."""
    counts = [1 << k for k in range(len(renders).bit_length())]
    for count in dict.fromkeys([*counts, len(renders)]):
        for first in range(0, len(renders) - count + 1, count):
            mean = np.mean(renders[first : first + count], axis=0, dtype=np.float32)
            photograph.measure(network, count, np.asarray(mean), seconds * count / len(renders))


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
        _print_means((network, str(of_seeds), corrected), over_db, best_db, np.mean(seconds).item())


def _print_means(
    row: tuple[str, str, str],
    over_lanczos_db: list[float],
    over_best_db: list[float],
    seconds: float,
) -> None:
    numbers = (f"{np.mean(over_lanczos_db):+.3f}", f"{np.mean(over_best_db):+.3f}")
    print_row(*row, len(over_best_db), *numbers, f"{min(over_best_db):+.2f}", f"{seconds:.2f}")


def _write(path: Path | None, photographs: list[Photograph]) -> None:
    if path is not None:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(Gain._fields)
            writer.writerows(gain for photograph in photographs for gain in photograph.gains)


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(__doc__, "device", "threads")
    add = parser.add_argument
    add("folder", type=Path, help="a folder of photographs")
    add("--networks", nargs="+", default=["quality"], help="networks, with changed settings")
    add("--seeds", type=int, default=1, help="networks of each kind for each photograph")
    add("--side", type=int, default=192, help="longest side of the training images in pixels")
    add("--factor", type=int, default=4, help="how many times larger the renders are")
    add("--output", type=Path, help="CSV with the gains of each photograph")
    return parser


if __name__ == "__main__":
    start(main, _parser(), blas_threads=1)
