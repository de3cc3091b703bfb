"""How fast this package trains and draws on this card, beside PyTorch and beside the card's limits.

One run measures everything that its tables compare; README.md says what each number means.
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from measuring import images
from measuring.context import Context
from measuring.environment import describe, measure_ceilings, reason_against_torch
from measuring.fidelity import measure_fidelity, measure_original
from measuring.measure import Deadline, Effort, Report
from measuring.rendering_speed import measure_drawing
from measuring.start import measure_start
from measuring.step_speed import measure_allocations, measure_footprint, measure_steps

from neuralfield.system.device import select_device
from neuralfield.system.errors import NeuralfieldError

ALWAYS = ("steps", "footprint", "drawing", "start", "allocations")
ON_REQUEST = ("fidelity", "original")
QUICK_EFFORT = Effort(sample_s=0.005, samples=3, warm_up_calls=1)
QUICK_EPOCHS = 40


def main(arguments: argparse.Namespace) -> int:
    """Measure the chosen parts; 1 where a check of correctness was not passed."""
    device = select_device(arguments.device)
    quick, report = arguments.quick, Report()
    effort = QUICK_EFFORT if quick else Effort()
    found = describe(device)
    reason = reason_against_torch() if arguments.peers else "--no-peers"
    ceilings = measure_ceilings(device, effort, quick=quick, with_peers=not reason)
    found["measured matrix product"] = f"{1e-12 * ceilings.matrix_flop_per_s:.4g} TFLOP/s"
    found["measured copy"] = f"{1e-12 * ceilings.copy_bytes_per_s:.3g} TB/s read plus written"
    if quick:
        found["sizes"] = "tiny (--quick): these numbers say nothing of speed"
    if reason:
        found["peers"] = f"left out: {reason}"
    epochs = QUICK_EPOCHS if quick else arguments.original_epochs
    measures: dict[str, Callable[[Context], None]] = {
        "steps": partial(measure_steps, chosen=arguments.rows),
        "footprint": partial(measure_footprint, points=arguments.footprint_points),
        "drawing": partial(measure_drawing, width_px=arguments.drawing_width),
        "start": measure_start,
        "allocations": measure_allocations,
        "fidelity": partial(measure_fidelity, photo=arguments.photo, drawing=arguments.drawing),
        "original": partial(
            measure_original,
            drawing=arguments.drawing,
            epochs=epochs,
            learning_rate=arguments.original_learning_rate,
        ),
    }
    for part in arguments.parts:
        deadline = Deadline(arguments.part_limit_s)
        measures[part](Context(device, ceilings, effort, deadline, report, quick, not reason))
    return report.publish(found, arguments.output)


def _parts(text: str) -> list[str]:
    known: list[str] = [*ALWAYS, *ON_REQUEST]
    chosen = known if text == "all" else text.split(",")
    if unknown := sorted(set(chosen) - set(known)):
        raise argparse.ArgumentTypeError(
            f"unknown {unknown}; expected all, or some of {', '.join(known)}"
        )
    return chosen


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = parser.add_argument
    add("--parts", type=_parts, default=",".join(ALWAYS), help="all, or names with commas")
    add("--fidelity", action="store_true", help="add the part fidelity")
    add("--output", type=Path, help="Markdown file to write; a JSON file is put beside it")
    add("--device", choices=("gpu", "cpu"), default="gpu")
    add("--quick", action="store_true", help="tiny sizes: to see that everything runs")
    add("--peers", action=argparse.BooleanOptionalAction, default=True, help="PyTorch too")
    add("--rows", default="", help="part steps: only rows whose names contain this")
    add("--part-limit-s", type=float, default=300.0, help="seconds that a part may take, about")
    add("--photo", type=Path, default=images.PHOTO)
    add("--drawing", type=Path, default=images.DRAWING)
    add("--footprint-points", type=int, default=9, help="points a pixel")
    add("--drawing-width", type=int, default=8192, help="pixels")
    add("--original-epochs", type=int, default=803_000)
    add("--original-learning-rate", type=float, help="default: chosen by short runs")
    return parser


if __name__ == "__main__":
    parsed = _parser().parse_args()
    if parsed.fidelity and "fidelity" not in parsed.parts:
        parsed.parts.append("fidelity")
    try:
        sys.exit(main(parsed))
    except NeuralfieldError as error:
        sys.exit(str(error))
