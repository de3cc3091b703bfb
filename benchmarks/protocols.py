"""Each field under the protocols that others published or measured it with: their dB, and ours.

    PYTHONPATH=scripts:workflow python benchmarks/protocols.py --kodak kodak --drawing cub.png

Steps, optimizer, learning rate, network and size are theirs (protocol_rows.py). Rows have a number
from elsewhere, or are "as in the paper": a small program of the paper's formula and initial weights
(torch_peers/papers.py) is taught in PyTorch beside ours. `--pytorch` does so for all rows whose
fields have such a program. Rows whose pictures are not given are left out. `--div2k` is for the
folder of pictures that FINER's authors measure with, data/div2k/test_data of their repository.
The report is written anew after each training: what is stopped early keeps what it has, rows say of
how many pictures and seeds they are the means, and `--resume` goes on where a report ends.
"""

import argparse
import dataclasses
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from fits import fit, picture_of
from measuring.environment import describe, reason_against_torch
from measuring.measure import Deadline, Report, markdown_table
from measuring.protocol_rows import DIV2K, PROTOCOLS, Protocol
from threadpoolctl import threadpool_limits

from neuralfield.fields import field_settings
from neuralfield.images import Picture
from neuralfield.system.device import Device, available_cores, select_device
from neuralfield.tasks.image.image_task import PictureTask
from neuralfield.tasks.training_settings import PictureTraining

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
    found = describe(device)
    if arguments.quick:
        found["sizes"] = "tiny (--quick): these numbers say nothing of fits"
    if arguments.resume and arguments.output and arguments.output.exists():
        report.resume(arguments.output, found)
    for protocol, paths in _chosen(arguments):
        is_paper, reason = protocol.others_db is None, _reason_against_program(protocol)
        comparison = Comparison(protocol, paths, arguments.seeds if is_paper else 1, device)
        if is_paper and reason is not None:
            report.add(_PART, comparison.row, OURS, left_out=f"nothing to compare with: {reason}")
            continue
        systems: dict[str, Callable[[Lesson], dict[str, Any]]]
        systems = {OURS: partial(comparison.ours, threads=arguments.threads)}
        if (is_paper or arguments.pytorch) and reason is None:
            systems[PAPER] = comparison.as_in_paper
        for system, learn in systems.items():
            for lesson in comparison.lessons:
                if report.has(lesson.row, system):
                    continue
                report.attempt(_PART, lesson.row, system, deadline, partial(learn, lesson))
                report.tables = [markdown_table(_HEADER, lines + comparison.lines(report))]
                report.write(found, arguments.output)
        lines += comparison.lines(report)
    report.tables = [markdown_table(_HEADER, lines)]
    return report.publish(found, arguments.output)


class Lesson(NamedTuple):
    """One training of a protocol.

    Attributes
    ----------
    row : str
        Its name in the report.
    picture_name : str
    picture : Picture
    seed : int
    training : dict
        The section `training`.
    """

    row: str
    picture_name: str
    picture: Picture
    seed: int
    training: dict[str, Any]


class Comparison:
    """A protocol and its pictures.

    Parameters
    ----------
    protocol : Protocol
    paths : list of Path
    seeds : int
        Of the random numbers, for each picture.
    device : Device

    Attributes
    ----------
    row : str
        What is compared.
    lessons : list of Lesson
        For each seed and picture.
    """

    def __init__(self, protocol: Protocol, paths: list[Path], seeds: int, device: Device) -> None:
        self._protocol, self._device = protocol, device
        pictures = {path.stem: picture_of(path, protocol.side_px) for path in paths}
        first = next(iter(pictures.values()))
        self._size = f"{first.width}x{first.height}"
        words = f"{protocol.steps:,} steps, {protocol.training_in_words}"
        self.row = f"{protocol.name}, {protocol.picture}, {self._size}, {words}"
        self.lessons = [
            Lesson(
                *(f"{self.row}, {name}, seed {seed}", name, picture, seed),
                protocol.settings | {"random_seed": seed},
            )
            for seed in range(seeds)
            for name, picture in pictures.items()
        ]

    def ours(self, lesson: Lesson, threads: int) -> dict[str, Any]:
        """What ours reaches."""
        field = self._protocol.field
        return fit(lesson.picture, field, lesson.training, self._device, threads)._asdict()

    def as_in_paper(self, lesson: Lesson) -> dict[str, Any]:
        """What a program of the paper's formula reaches."""
        from torch_peers.papers import learn_as_in_paper

        settings, protocol = PictureTraining.from_mapping(lesson.training), self._protocol
        field, picture = protocol.field, lesson.picture
        task = PictureTask(picture.values(), picture.mode, field_settings(field), settings)
        return {"db": learn_as_in_paper(task, field, self._device, protocol.of_program)}

    def lines(self, report: Report) -> list[list[str]]:
        """Lines of the table, one for each number of others.

        Each is of the lessons that there is a result of: of ours beside a number from elsewhere, of
        both beside the program.
        """
        found = {(e["row"], e["system"]): e for e in report.entries if "db" in e}
        taught = [lesson for lesson in self.lessons if (lesson.row, OURS) in found]
        ours = [found[lesson.row, OURS] for lesson in taught]
        lines = []
        if taught and self._protocol.others_db is not None:
            others_db, source = self._protocol.others_db, self._protocol.source
            lines.append(self._line(taught, ours, [others_db] * len(taught), source))
        both = [lesson for lesson in taught if (lesson.row, PAPER) in found]
        if both:
            ours = [found[lesson.row, OURS] for lesson in both]
            paper_db = [found[lesson.row, PAPER]["db"] for lesson in both]
            lines.append(self._line(both, ours, paper_db, PAPER))
        return lines

    def _line(
        self, lessons: list[Lesson], ours: list[dict[str, Any]], theirs_db: list[float], whose: str
    ) -> list[str]:
        """Means; of several seeds the difference has the standard error of its mean."""
        protocol = self._protocol
        seeds = len({lesson.seed for lesson in lessons})
        pictures = len({lesson.picture_name for lesson in lessons})
        many = f"{pictures} of " * (protocol.picture == DIV2K)
        in_words = f", {seeds} seeds" * (seeds > 1)
        ours_db = np.array([entry["db"] for entry in ours])
        differences_db = ours_db - theirs_db
        spread = ""
        if seeds > 1:
            spread = f" ± {np.std(differences_db, ddof=1) / len(lessons) ** 0.5:.2f}"
        return [
            *(protocol.name, f"{many}{protocol.picture}, {self._size}{in_words}"),
            *(f"{ours[0]['parameters']:,.0f}", f"{protocol.steps:,}", protocol.training_in_words),
            *(f"{np.mean(theirs_db):.2f}", whose, f"{np.mean(ours_db):.2f}"),
            f"{np.mean(differences_db):+.2f}{spread}",
            f"{np.mean([entry['lost_db'] for entry in ours]):.2f}",
        ]


def _chosen(arguments: argparse.Namespace) -> Iterator[tuple[Protocol, list[Path]]]:
    """The protocols that are asked for, of the size that is asked for, and their pictures."""
    for protocol in PROTOCOLS:
        paths = _pictures(protocol.picture, arguments)
        title = f"{protocol.name}, {protocol.picture}, {protocol.training_in_words}"
        if not paths or not any(part in title for part in arguments.rows):
            continue
        if protocol.others_db is None and protocol.side_px is None:
            protocol = dataclasses.replace(protocol, side_px=arguments.paper_side)
        if arguments.quick:
            protocol = protocol.reduced()
        if arguments.steps:
            protocol = dataclasses.replace(protocol, steps=arguments.steps)
        yield protocol, paths


def _reason_against_program(protocol: Protocol) -> str | None:
    """Why its field cannot be taught in PyTorch here; None: it can."""
    if reason := reason_against_torch():
        return reason
    from torch_peers.papers import PAPERS

    kind = protocol.field["type"]
    return None if kind in PAPERS else f"no program of {kind} in PyTorch"


def _pictures(name: str, arguments: argparse.Namespace) -> list[Path]:
    """The files of a protocol's pictures; none where they are not given."""
    if name == DIV2K and arguments.div2k:
        found = sorted(arguments.div2k.glob("*.png"))
        return found or sys.exit(f"{arguments.div2k}: no *.png; expected the pictures of DIV2K")
    if name == DIV2K:
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
    add("--resume", action="store_true", help="keep what --output has, teach what it lacks")
    add("--quick", action="store_true", help="tiny: to see that all runs")
    return parser


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        sys.exit(main(_parser().parse_args()))
