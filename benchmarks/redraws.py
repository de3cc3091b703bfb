"""How good redraws are, against the truth and against filters: drawings of curves, or pictures.

    PYTHONPATH=scripts:workflow python benchmarks/redraws.py
    PYTHONPATH=scripts:workflow python benchmarks/redraws.py --pictures *.png --side 192 --factor 4

A picture of `side` times `factor` pixels is the truth; a network is taught the reduced one and
drawn at the truth's size. Networks are those of a config: `--config FILE --fields NAME ...`.
Specks and ringing are those of artefacts.py, in levels of 255, and after the stroke what Lanczos
has of them. `--save FOLDER` keeps all redraws, to be looked at.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from measuring import ROOT
from measuring.artefacts import Artefacts
from measuring.config_networks import ConfigNetworks
from measuring.field_runs import Lesson, Taught, teach
from measuring.line_drawings import DRAWINGS, line_drawing
from threadpoolctl import threadpool_limits

from neuralfield.images import Picture
from neuralfield.images.reading import read_picture
from neuralfield.images.resizing import resize_picture
from neuralfield.images.writing import write_picture
from neuralfield.system.device import available_cores, select_device

CONFIG = ROOT / "config.yaml"


def main() -> None:
    """Print a row for each network and picture, and their means."""
    parser = argparse.ArgumentParser(description=__doc__)
    ConfigNetworks.add_options(parser, CONFIG)
    parser.add_argument("--pictures", nargs="+", type=Path, default=[], help="default: drawings")
    parser.add_argument("--drawings", nargs="+", choices=DRAWINGS, default=list(DRAWINGS))
    parser.add_argument("--side", type=int, default=200, help="longer side that is taught, in px")
    parser.add_argument("--factor", type=int, default=5, help="of the redraw")
    parser.add_argument("--device", choices=("auto", "cpu", "gpu"), default="auto")
    parser.add_argument("--threads", type=int, default=available_cores())
    parser.add_argument("--save", type=Path, metavar="FOLDER", help="where redraws are kept")
    arguments = parser.parse_args()
    networks = ConfigNetworks.chosen(arguments)
    lessons = _lessons(arguments)
    device = select_device(arguments.device)
    if arguments.save is not None:
        arguments.save.mkdir(parents=True, exist_ok=True)
    print(f"{device.name}, {arguments.threads} threads; {arguments.side} px x {arguments.factor}\n")
    print("| network | picture | redraw, dB | over Lanczos | over bicubic", end="")
    print(" | specks | ringing | fit, dB | seconds |\n" + "|---" * 9 + "|")
    for name in networks.names:
        rows = []
        for picture, lesson in lessons.items():
            field, training = networks.settings(name, lesson.taught)
            found = teach(lesson, field, training, device, "auto", arguments.threads)
            rows.append(_numbers(found, lesson, arguments.factor))
            _print_row(name, picture, rows[-1])
            if arguments.save is not None and found.redraw is not None:
                mode = "grey" if lesson.truth.mode == "bilevel" else lesson.truth.mode
                drawn = Picture.from_values(found.redraw, mode, 8)
                write_picture(arguments.save / f"{name}_{picture}.png", drawn)
        _print_row(f"**{name}**", "mean", np.nanmean(rows, axis=0).tolist())


def _numbers(found: Taught, lesson: Lesson, factor: int) -> list[float]:
    """Redraw, its gains, artefacts of both, fit, seconds."""
    over = [found.redraw_db - lesson.filter_db(name) for name in ("lanczos", "bicubic")]
    redraws = (found.redraw, lesson.enlarged("lanczos").values())
    artefacts: list[float] = []
    for redraw in redraws:
        if redraw is None:
            artefacts += [np.nan, np.nan]
        else:
            seen = Artefacts.of(redraw, lesson.truth.values(), factor)
            artefacts += [seen.specks, seen.ringing]
    return [found.redraw_db, *over, *artefacts, found.fit_db, found.seconds]


def _lessons(arguments: argparse.Namespace) -> dict[str, Lesson]:
    side, factor = arguments.side, arguments.factor
    if not arguments.pictures:
        truths = {name: line_drawing(name, side * factor) for name in arguments.drawings}
        pictures = {n: Picture.from_values(t, "grey", 16) for n, t in truths.items()}
    else:
        pictures = {path.stem: read_picture(path) for path in arguments.pictures}
    lessons = {}
    for name, picture in pictures.items():
        truth = resize_picture(picture, side * factor)
        taught = (truth.width // factor, truth.height // factor)
        if (factor * taught[0], factor * taught[1]) != (truth.width, truth.height):
            sys.exit(f"{name}: {truth.width} x {truth.height} pixels do not divide by {factor}")
        lessons[name] = Lesson(resize_picture(truth, taught), truth)
    return lessons


def _print_row(network: str, picture: str, numbers: list[float]) -> None:
    redraw, lanczos, bicubic, *_, fit, seconds = numbers
    specks, ringing, *of_lanczos = ("-" if np.isnan(n) else f"{n:.0f}" for n in numbers[3:7])
    print(
        f"| {network} | {picture} | {redraw:.2f} | {lanczos:+.2f} | {bicubic:+.2f}"
        f" | {specks} / {of_lanczos[0]} | {ringing} / {of_lanczos[1]}"
        f" | {fit:.1f} | {seconds:.1f} |",
        flush=True,
    )


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        main()
