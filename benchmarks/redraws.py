"""How good redraws are, against the truth and against filters: drawings of curves, or pictures.

    PYTHONPATH=scripts:workflow python benchmarks/redraws.py
    PYTHONPATH=scripts:workflow python benchmarks/redraws.py --pictures *.png --side 192 --factor 4

A picture of `side` times `factor` pixels is the truth; a network is taught the reduced one and
drawn at the truth's size. Networks are those of a config: `--config FILE --fields NAME ...`.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from config_networks import ConfigNetworks
from field_runs import Lesson, teach
from line_drawings import DRAWINGS, line_drawing
from threadpoolctl import threadpool_limits

from neuralfield.device import available_cores, select_device
from neuralfield.images import Picture
from neuralfield.images.reading import read_picture
from neuralfield.images.resizing import resize_picture

CONFIG = Path(__file__).resolve().parents[1] / "config.yaml"


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
    arguments = parser.parse_args()
    networks = ConfigNetworks.chosen(arguments)
    lessons = _lessons(arguments)
    device = select_device(arguments.device)
    print(f"{device.name}, {arguments.threads} threads; {arguments.side} px x {arguments.factor}\n")
    print("| network | picture | redraw, dB | over Lanczos | over bicubic | fit, dB | seconds |")
    print("|---" * 7 + "|")
    for name in networks.names:
        rows = []
        for picture, lesson in lessons.items():
            field, training = networks.settings(name, lesson.taught)
            found = teach(lesson, field, training, device, "auto", arguments.threads)
            over = [found["redraw_db"] - lesson.filter_db(f) for f in ("lanczos", "bicubic")]
            rows.append([found["redraw_db"], *over, found["fit_db"], found["seconds"]])
            _print_row(name, picture, rows[-1])
        _print_row(f"**{name}**", "mean", np.mean(rows, axis=0).tolist())


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
    redraw, lanczos, bicubic, fit, seconds = numbers
    print(
        f"| {network} | {picture} | {redraw:.2f} | {lanczos:+.2f} | {bicubic:+.2f} | {fit:.1f}"
        f" | {seconds:.1f} |",
        flush=True,
    )


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        main()
