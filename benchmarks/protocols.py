"""Compares the dB of each field with the results of others, under their training protocols.

    python benchmarks/protocols.py --kodak kodak --drawing cub.png

Steps, optimizer, learning rate, network and size are those of the other authors
(measuring/protocol_rows.py). A row compares with a published number or is "as in the paper": a
small program with the paper's formula and initial weights (torch_peers/papers.py) is trained in
PyTorch for comparison. `--pytorch` does so for all rows whose fields have such a program. Rows
without images are left out. `--div2k` is the folder of the images that FINER's authors use,
data/div2k/test_data of their repository. The report is rewritten after each training, so that a run
that is stopped early keeps its results: each row has the numbers of images and seeds that it is the
mean of, and `--resume` continues from an existing report.
"""

import argparse
import dataclasses
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from measuring.command_line import new_parser, start
from measuring.environment import describe, describe_options, torch_unsupported_reason
from measuring.field_runs import fit, read_reduced
from measuring.measure import Deadline, Report, markdown_table
from measuring.ours import image_task
from measuring.protocol_rows import DIV2K, PROTOCOLS, Protocol

from neuralfield.images import ImageData
from neuralfield.system.device import Device, select_device
from neuralfield.tasks.image.image_task import ImageTask

OURS, PAPER = "ours", "its formula in PyTorch"
_PART = "protocols"
_PAPER_SIDE_PX = 192
_HEADER = [
    *("network", "image", "parameters", "steps", "training", "theirs, dB", "whose"),
    *("ours, dB", "difference", "lost at the end, dB"),
]


def main(arguments: argparse.Namespace) -> int:
    """Measure each protocol whose images are given."""
    device, report = select_device(arguments.device), Report()
    deadline, lines = Deadline(arguments.limit_s), []
    found = describe(device) | describe_options(arguments)
    if arguments.resume and arguments.output and arguments.output.exists():
        report.resume(arguments.output, found)
    for protocol, paths in _chosen(arguments):
        is_paper, reason = protocol.others_db is None, _unsupported_reason(protocol)
        comparison = Comparison(protocol, paths, arguments.seeds if is_paper else 1, device)
        if is_paper and reason is not None:
            report.add(_PART, comparison.row, OURS, left_out=f"nothing to compare with: {reason}")
            continue
        systems: dict[str, Callable[[ProtocolTraining], dict[str, Any]]]
        systems = {OURS: partial(comparison.ours, threads=arguments.threads)}
        if (is_paper or arguments.pytorch) and reason is None:
            systems[PAPER] = comparison.as_in_paper
        for system, train in systems.items():
            for training in comparison.trainings:
                if report.has(training.row, system):
                    continue
                report.attempt(_PART, training.row, system, deadline, partial(train, training))
                report.tables = [markdown_table(_HEADER, lines + comparison.lines(report))]
                report.write(found, arguments.output)
        lines += comparison.lines(report)
    report.tables = [markdown_table(_HEADER, lines)]
    return report.publish(found, arguments.output)


class ProtocolTraining(NamedTuple):
    """One training of a protocol, by one image and seed.

    Attributes
    ----------
    row : str
        The name of the row in the report.
    settings : dict
        The section `training`.
    """

    row: str
    image_name: str
    image: ImageData
    seed: int
    settings: dict[str, Any]


class Comparison:
    """A protocol and its images.

    Parameters
    ----------
    seeds : int
        Number of random seeds for each image.

    Attributes
    ----------
    row : str
        The comparison's name in the report.
    trainings : list of Training
        One for each seed and image.
    """

    def __init__(self, protocol: Protocol, paths: list[Path], seeds: int, device: Device) -> None:
        self._protocol, self._device = protocol, device
        images = {path.stem: read_reduced(path, protocol.side_px) for path in paths}
        first = next(iter(images.values()))
        self._size = f"{first.width}x{first.height}"
        words = f"{protocol.steps:,} steps, {protocol.training_in_words}"
        self.row = f"{protocol.name}, {protocol.image}, {self._size}, {words}"
        self.trainings = [
            ProtocolTraining(
                *(f"{self.row}, {name}, seed {seed}", name, image, seed),
                protocol.settings | {"random_seed": seed},
            )
            for seed in range(seeds)
            for name, image in images.items()
        ]

    def ours(self, training: ProtocolTraining, threads: int) -> dict[str, Any]:
        """Train and measure our network."""
        field = self._protocol.field
        return fit(training.image, field, training.settings, self._device, threads)._asdict()

    def as_in_paper(self, training: ProtocolTraining) -> dict[str, Any]:
        """Train and measure a program with the paper's formula."""
        from torch_peers.papers import train_as_in_paper

        field, of_program = self._protocol.field, self._protocol.of_program
        task = image_task(training.image, field, training.settings)
        assert isinstance(task, ImageTask)  # the papers are about fields
        return {"db": train_as_in_paper(task, field, self._device, of_program)}

    def lines(self, report: Report) -> list[list[str]]:
        """Return the lines of the table, one for each number of others.

        For a published number, the means are over the trainings that have our result; for the
        program in PyTorch, they are over the trainings that have both results.
        """
        found = {(e["row"], e["system"]): e for e in report.entries if "db" in e}
        done = [training for training in self.trainings if (training.row, OURS) in found]
        lines = []
        if done and self._protocol.others_db is not None:
            ours = [found[training.row, OURS] for training in done]
            others_db, source = self._protocol.others_db, self._protocol.source
            lines.append(self._line(done, ours, [others_db] * len(done), source))
        both = [training for training in done if (training.row, PAPER) in found]
        if both:
            ours = [found[training.row, OURS] for training in both]
            paper_db = [found[training.row, PAPER]["db"] for training in both]
            lines.append(self._line(both, ours, paper_db, PAPER))
        return lines

    def _line(
        self,
        trainings: list[ProtocolTraining],
        ours: list[dict[str, Any]],
        theirs_db: list[float],
        whose: str,
    ) -> list[str]:
        """Return the means; with several seeds, the difference has its standard error."""
        protocol = self._protocol
        seeds = len({training.seed for training in trainings})
        images = len({training.image_name for training in trainings})
        many = f"{images} of " * (protocol.image == DIV2K)
        in_words = f", {seeds} seeds" * (seeds > 1)
        ours_db = np.array([entry["db"] for entry in ours])
        differences_db = ours_db - theirs_db
        spread = ""
        if seeds > 1:
            spread = f" ± {np.std(differences_db, ddof=1) / len(trainings) ** 0.5:.2f}"
        return [
            *(protocol.name, f"{many}{protocol.image}, {self._size}{in_words}"),
            *(f"{ours[0]['parameters']:,.0f}", f"{protocol.steps:,}", protocol.training_in_words),
            *(f"{np.mean(theirs_db):.2f}", whose, f"{np.mean(ours_db):.2f}"),
            f"{np.mean(differences_db):+.2f}{spread}",
            f"{np.mean([entry['lost_db'] for entry in ours]):.2f}",
        ]


def _chosen(arguments: argparse.Namespace) -> Iterator[tuple[Protocol, list[Path]]]:
    """Yield the protocols that the options choose, in the requested size, and their images."""
    for protocol in PROTOCOLS:
        paths = _image_files(protocol.image, arguments)
        title = f"{protocol.name}, {protocol.image}, {protocol.training_in_words}"
        if not paths or not any(part in title for part in arguments.rows):
            continue
        if protocol.others_db is None and protocol.side_px is None:
            protocol = dataclasses.replace(protocol, side_px=arguments.paper_side)
        if arguments.quick:
            protocol = protocol.reduced()
        if arguments.steps:
            protocol = dataclasses.replace(protocol, steps=arguments.steps)
        yield protocol, paths


def _unsupported_reason(protocol: Protocol) -> str | None:
    """Return the reason why a protocol's field cannot be trained in PyTorch here, or None."""
    if reason := torch_unsupported_reason():
        return reason
    from torch_peers.papers import PAPERS

    kind = protocol.field["type"]
    return None if kind in PAPERS else f"no program of {kind} in PyTorch"


def _image_files(name: str, arguments: argparse.Namespace) -> list[Path]:
    """Return the files of a protocol's images; empty if they are not given."""
    if name == DIV2K and arguments.div2k:
        found = sorted(arguments.div2k.glob("*.png"))
        return found or sys.exit(f"{arguments.div2k}: no *.png; expected the images of DIV2K")
    if name == DIV2K:
        return []
    if name == "drawing":
        return [arguments.drawing] if arguments.drawing else []
    return [arguments.kodak / f"{name}.png"] if arguments.kodak else []


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(__doc__, "device", "threads", "output", "quick")
    add = parser.add_argument
    add("--kodak", type=Path, help="folder with kodim15.png and kodim03.png")
    add("--drawing", type=Path, help="the lion cub of 200 x 200 pixels")
    add("--div2k", type=Path, help="folder of images of 512 x 512 pixels")
    add(
        "--rows",
        nargs="+",
        default=[""],
        help="only rows whose titles contain one of these",
    )
    add("--pytorch", action="store_true", help="train all rows in PyTorch too")
    add(
        "--paper-side",
        type=int,
        default=_PAPER_SIDE_PX,
        help="pixels of a side, 'as in the paper'",
    )
    add("--seeds", type=int, default=1, help="number of seeds averaged in rows 'as in the paper'")
    add(
        "--steps",
        type=int,
        help="steps of all rows instead of their own, to test that all rows run",
    )
    add(
        "--limit-s",
        type=float,
        default=3600.0,
        help="seconds after which no further training begins",
    )
    add("--resume", action="store_true", help="keep the results in --output, train the others")
    return parser


if __name__ == "__main__":
    start(main, _parser(), blas_threads=1)
