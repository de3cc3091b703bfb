"""All fields side by side on the shipped pictures: fit, redraw, parameters, seconds.

    PYTHONPATH=scripts python benchmarks/field_table.py

prints the table of docs/fields.md. Every field has its default settings and learning rate, and the
same number of steps.
"""

import argparse

from measuring.field_runs import PICTURES, Lesson, teach
from threadpoolctl import threadpool_limits

from neuralfield.fields import FIELDS
from neuralfield.system.device import select_device


def main() -> None:
    """Print a row for each picture and field."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fields", nargs="+", choices=FIELDS, default=list(FIELDS))
    parser.add_argument("--side", type=int, default=96, help="longer side in pixels")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch-pixels", type=int, default=256)
    parser.add_argument("--optimizer", choices=("adam", "muon"), default="adam")
    arguments = parser.parse_args()
    device = select_device("cpu")
    print("| picture | field | parameters | fit, dB | redraw, dB | Lanczos, dB | seconds |")
    print("|---" * 7 + "|")
    for name in PICTURES:
        lesson = Lesson.of(name, arguments.side)
        lanczos_db = lesson.filter_db("lanczos")
        for field in arguments.fields:
            training = {
                "steps": arguments.steps,
                "batch_pixels": arguments.batch_pixels,
                "supervision": "footprint",
                "optimizer": arguments.optimizer,
                "learning_rate": FIELDS[field]().suggested_learning_rate,
            }
            found = teach(lesson, {"type": field}, training, device)
            print(
                f"| {name} | `{field}` | {found.parameters:,} | {found.fit_db:.1f}"
                f" | {found.redraw_db:.2f} | {lanczos_db:.2f} | {found.seconds:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        main()
