"""Which learning rate suits each field: a sweep that can be run on two cores.

    PYTHONPATH=scripts python benchmarks/field_rates.py

prints a table for docs/fields.md: what each field's `suggested_learning_rate` is from. With

    --fields siren --settings '{width: 64}' '{width: 256}' '{omega_0: 60}' --rates 2.5e-4 5e-4 1e-3

it has a row for each of these settings.
"""

import argparse
from itertools import product

import yaml
from measuring.field_runs import PICTURES, Lesson, teach
from threadpoolctl import threadpool_limits

from neuralfield.fields import FIELDS
from neuralfield.system.device import select_device

RATES = (3e-4, 1e-3, 3e-3, 1e-2)


def main() -> None:
    """Print mean fit and mean redraw of the pictures, for each field and rate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fields", nargs="+", choices=FIELDS, default=list(FIELDS))
    parser.add_argument("--rates", nargs="+", type=float, default=RATES)
    parser.add_argument("--settings", nargs="+", type=yaml.safe_load, default=[{}], metavar="YAML")
    parser.add_argument("--optimizer", choices=("adam", "muon"), default="adam")
    parser.add_argument("--side", type=int, default=96, help="longer side in pixels")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch-pixels", type=int, default=256)
    arguments = parser.parse_args()
    lessons = [Lesson.of(name, arguments.side) for name in PICTURES]
    device = select_device("cpu")
    print("| field | " + " | ".join(f"{rate:g}" for rate in arguments.rates) + " |")
    print("|---" * (1 + len(arguments.rates)) + "|")
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
            found = [
                teach(lesson, {"type": field} | settings, training, device) for lesson in lessons
            ]
            fit = sum(one.fit_db for one in found) / len(found)
            redraw = sum(one.redraw_db for one in found) / len(found)
            cells.append(f"{fit:.1f} / {redraw:.1f}")
        name = f"`{field}`" + "".join(f", {key} {value}" for key, value in settings.items())
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        main()
