"""Each field under the protocols that others published or measured it with: their dB, and ours.

    PYTHONPATH=scripts:workflow python benchmarks/protocols.py --kodak kodak --drawing cub.png

Steps, optimizer, learning rate, network and size are theirs (protocol_rows.py). Rows have a number
from elsewhere, or are "as in the paper": a small program of the paper's formula and initial weights
(peers_torch_papers.py) is taught in PyTorch beside ours. `--pytorch` does so for all rows whose
fields have such a program. Rows whose pictures are not given are left out. `--div2k` is for the
folder of pictures that FINER's authors measure with, data/div2k/test_data of their repository.
"""

import argparse
import dataclasses
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from environment import describe, reason_against_torch
from fits import Fit, fit, picture_of
from measure import Deadline, Report, markdown_table
from protocol_rows import PROTOCOLS, Protocol
from threadpoolctl import threadpool_limits

from neuralfield.device import Device, available_cores, select_device
from neuralfield.fields import field_settings
from neuralfield.images import Picture
from neuralfield.picture_task import PictureTask
from neuralfield.training import PictureTraining

OURS, PAPER = "ours", "its formula in PyTorch"
_PART = "protocols"
_PAPER_SIDE_PX = 192
_HEADER = [
    *("network", "picture", "parameters", "steps", "training", "theirs, dB", "whose"),
    *("ours, dB", "difference", "lost at the end, dB"),
]


def main(arguments: argparse.Namespace) -> int:
    """Measure each protocol whose pictures are given."""
    device, report = select_device(arguments.device), Report()
    deadline, lines = Deadline(arguments.limit_s), []
    for protocol, paths in _chosen(arguments):
        is_paper = protocol.others_db is None
        comparison = Comparison(protocol, paths, arguments.seeds if is_paper else 1, device)
        attempt = partial(report.attempt, _PART, comparison.row)
        attempt(OURS, deadline, partial(comparison.ours, arguments.threads))
        if (is_paper or arguments.pytorch) and _has_program(protocol):
            attempt(PAPER, deadline, comparison.as_in_paper)
        lines += comparison.lines(report)
    report.tables.append(markdown_table(_HEADER, lines))
    found = describe(device)
    if arguments.quick:
        found["sizes"] = "tiny (--quick): these numbers say nothing of fits"
    return report.publish(found, arguments.output)


class Comparison:
    """A protocol and its pictures.

    Parameters
    ----------
    protocol : Protocol
    paths : list of Path
    seeds : int
        Of the random numbers, for each picture; the mean over all counts.
    device : Device
    """

    def __init__(self, protocol: Protocol, paths: list[Path], seeds: int, device: Device) -> None:
        self._protocol, self._device = protocol, device
        pictures = [picture_of(path, protocol.side_px) for path in paths]
        self._trainings = [
            (picture, protocol.settings | {"random_seed": seed})
            for picture in pictures
            for seed in range(seeds)
        ]
        many = f"{len(pictures)} of " * (len(pictures) > 1)
        size = f"{pictures[0].width}x{pictures[0].height}"
        in_words = f", {seeds} seeds" * (seeds > 1)
        self._picture = f"{many}{protocol.picture}, {size}{in_words}"
        words = f"{protocol.steps:,} steps, {protocol.training_in_words}"
        self.row = f"{protocol.name}, {self._picture}, {words}"

    def ours(self, threads: int) -> dict[str, Any]:
        """Means over pictures and seeds."""
        field, device = self._protocol.field, self._device
        fits = [fit(picture, field, t, device, threads) for picture, t in self._trainings]
        return Fit(*np.mean(fits, axis=0).tolist())._asdict()

    def as_in_paper(self) -> dict[str, Any]:
        """Means over pictures and seeds, by a program of the paper's formula."""
        found_db = [self._in_pytorch(picture, t) for picture, t in self._trainings]
        return {"db": float(np.mean(found_db))}

    def lines(self, report: Report) -> list[list[str]]:
        """Lines of the table: one for each number of others, as far as there are any."""
        protocol = self._protocol
        found = {e["system"]: e for e in report.entries if e["row"] == self.row and "db" in e}
        ours = found.get(OURS)
        if ours is None:
            return []
        of_paper = found[PAPER]["db"] if PAPER in found else None
        references = [(protocol.others_db, protocol.source), (of_paper, PAPER)]
        what = [protocol.name, self._picture, f"{ours['parameters']:,.0f}", f"{protocol.steps:,}"]
        own_db, lost_db = ours["db"], ours["lost_db"]
        return [
            [
                *(*what, protocol.training_in_words),
                *(f"{db:.2f}", whose, f"{own_db:.2f}", f"{own_db - db:+.2f}", f"{lost_db:.2f}"),
            ]
            for db, whose in references
            if db is not None
        ]

    def _in_pytorch(self, picture: Picture, training: dict[str, Any]) -> float:
        from peers_torch_papers import learn_as_in_paper

        settings, protocol = PictureTraining.from_mapping(training), self._protocol
        field = protocol.field
        task = PictureTask(picture.values(), picture.mode, field_settings(field), settings)
        return learn_as_in_paper(task, field, self._device, protocol.of_program)


def _chosen(arguments: argparse.Namespace) -> Iterator[tuple[Protocol, list[Path]]]:
    """The protocols that are asked for, of the size that is asked for, and their pictures."""
    for protocol in PROTOCOLS:
        paths = _pictures(protocol.picture, arguments)
        title = f"{protocol.name}, {protocol.picture}, {protocol.training_in_words}"
        if not paths or not any(part in title for part in arguments.rows):
            continue
        if protocol.others_db is None:
            protocol = dataclasses.replace(protocol, side_px=arguments.paper_side)
        if arguments.quick:
            protocol = protocol.reduced()
        if arguments.steps:
            protocol = dataclasses.replace(protocol, steps=arguments.steps)
        yield protocol, paths


def _has_program(protocol: Protocol) -> bool:
    """Whether its field can be taught in PyTorch here."""
    if reason_against_torch():
        return False
    from peers_torch_papers import PAPERS

    return protocol.field["type"] in PAPERS


def _pictures(name: str, arguments: argparse.Namespace) -> list[Path]:
    """The files of a protocol's pictures; none where they are not given."""
    if name == "div2k" and arguments.div2k:
        found = sorted(arguments.div2k.glob("*.png"))
        return found or sys.exit(f"{arguments.div2k}: no *.png; expected the pictures of DIV2K")
    if name == "div2k":
        return []
    if name == "drawing":
        return [arguments.drawing] if arguments.drawing else []
    return [arguments.kodak / f"{name}.png"] if arguments.kodak else []


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = parser.add_argument
    add("--kodak", type=Path, help="folder with kodim15.png and kodim03.png")
    add("--drawing", type=Path, help="the lion cub of 200 x 200 pixels")
    add("--div2k", type=Path, help="folder of pictures of 512 x 512 pixels")
    add("--rows", nargs="+", default=[""], help="parts of 'NAME, PICTURE, TRAINING'")
    add("--pytorch", action="store_true", help="all rows in PyTorch too")
    add("--paper-side", type=int, default=_PAPER_SIDE_PX, help="px; of rows 'as in the paper'")
    add("--seeds", type=int, default=1, help="of rows 'as in the paper'; the mean counts")
    add("--device", choices=("auto", "cpu", "gpu"), default="auto")
    add("--threads", type=int, default=available_cores())
    add("--steps", type=int, help="of all rows, in place of theirs: to see that all runs")
    add("--limit-s", type=float, default=3600.0, help="nothing is begun after so many seconds")
    add("--output", type=Path, help="Markdown file to write; a JSON file is put beside it")
    add("--quick", action="store_true", help="tiny: to see that all runs")
    return parser


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        sys.exit(main(_parser().parse_args()))
