"""Finds the best learning rate of each field with a sweep on two cores.

    python benchmarks/field_rates.py

prints a table for docs/fields.md, from which each field's `suggested_learning_rate` is taken. With

    --fields siren --settings '{width: 64}' '{width: 256}' '{omega_0: 60}' --rates 2.5e-4 5e-4 1e-3

the table has a row for each of these settings.
"""

import argparse
from itertools import product

import yaml
from measuring.command_line import new_parser, start
from measuring.field_runs import ImagePair, fit_and_render
from measuring.images import DRAWING, PHOTO
from measuring.measure import print_header, print_row

from neuralfield.fields import FIELDS
from neuralfield.images import read_image, resize_image
from neuralfield.system.device import select_device

RATES = (3e-4, 1e-3, 3e-3, 1e-2)
IMAGES = {DRAWING: "grey", PHOTO: "rgb"}
_ENLARGED = 4


def main(arguments: argparse.Namespace) -> None:
    """Print the images' mean fit and mean redraw for each field and rate."""
    sources = [read_image(path, mode=mode) for path, mode in IMAGES.items()]
    sides = arguments.side, _ENLARGED * arguments.side
    pairs = [ImagePair(*(resize_image(source, side) for side in sides)) for source in sources]
    device = select_device("cpu")
    print_header("field", *(f"{rate:g}" for rate in arguments.rates))
    for field, settings in product(arguments.fields, arguments.settings):
        cells = []
        for rate in arguments.rates:
            training = {
                "steps": arguments.steps,
                "batch_pixels": arguments.batch_pixels,
                "detail_share": 0.0,
                "supervision": "point",
                "optimizer": arguments.optimizer,
                "learning_rate": rate,
            }
            network = {"type": field} | settings
            found = [fit_and_render(pair, network, training, device) for pair in pairs]
            fit_db = sum(one.fit_db for one in found) / len(found)
            render_db = sum(one.render_db for one in found) / len(found)
            cells.append(f"{fit_db:.1f} / {render_db:.1f}")
        print_row(f"`{field}`" + "".join(f", {key} {settings[key]}" for key in settings), *cells)


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(__doc__)
    add = parser.add_argument
    add("--fields", nargs="+", choices=FIELDS, default=list(FIELDS))
    add("--rates", nargs="+", type=float, default=RATES, help="learning rates")
    add(
        "--settings",
        nargs="+",
        type=yaml.safe_load,
        default=[{}],
        metavar="YAML",
        help="settings of the fields",
    )
    add("--optimizer", choices=("adam", "muon"), default="adam", help="optimizer of the trainings")
    add("--side", type=int, default=96, help="longer side of the training images in pixels")
    add("--steps", type=int, default=300, help="steps of each training")
    add("--batch-pixels", type=int, default=256, help="pixels of a step")
    return parser


if __name__ == "__main__":
    start(main, _parser(), blas_threads=1)
