"""All fields side by side on the shipped images: fit, redraw, parameters, seconds.

    python benchmarks/field_table.py

prints the table of docs/fields.md. Every field has its default settings and learning rate, and the
same number of steps.
"""

import argparse

from measuring.command_line import new_parser, start
from measuring.field_runs import IMAGES, ImagePair, fit_and_render
from measuring.measure import print_header, print_row

from neuralfield.fields import FIELDS
from neuralfield.system.device import select_device


def main(arguments: argparse.Namespace) -> None:
    """Print a row for each image and field."""
    device = select_device("cpu")
    names = ("image", "field", "parameters", "fit, dB", "redraw, dB", "Lanczos, dB", "seconds")
    print_header(*names)
    for name in IMAGES:
        pair = ImagePair.shipped(name, arguments.side)
        lanczos_db = pair.filter_db("lanczos")
        for field in arguments.fields:
            training = {
                "steps": arguments.steps,
                "batch_pixels": arguments.batch_pixels,
                "supervision": "footprint",
                "optimizer": arguments.optimizer,
                "learning_rate": FIELDS[field]().suggested_learning_rate,
            }
            found = fit_and_render(pair, {"type": field}, training, device)
            print_row(
                *(name, f"`{field}`", f"{found.parameters:,}", f"{found.fit_db:.1f}"),
                *(f"{found.render_db:.2f}", f"{lanczos_db:.2f}", f"{found.seconds:.0f}"),
            )


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(__doc__)
    add = parser.add_argument
    add("--fields", nargs="+", choices=FIELDS, default=list(FIELDS))
    add("--side", type=int, default=96, help="longer side of the training images in pixels")
    add("--steps", type=int, default=400, help="steps of each training")
    add("--batch-pixels", type=int, default=256, help="pixels of a step")
    add("--optimizer", choices=("adam", "muon"), default="adam", help="optimizer of the trainings")
    return parser


if __name__ == "__main__":
    start(main, _parser(), blas_threads=1)
