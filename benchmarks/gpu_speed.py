"""Times training and rendering on this GPU, in comparison with PyTorch and the GPU's limits.

One run measures everything that its tables compare; README.md explains each number.
"""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

from measuring import images
from measuring.command_line import new_parser, start
from measuring.context import Context
from measuring.environment import (
    describe,
    describe_options,
    measure_ceilings,
    torch_unsupported_reason,
)
from measuring.fidelity import measure_fidelity, measure_original
from measuring.measure import Deadline, Effort, Report
from measuring.rendering_speed import measure_rendering
from measuring.start import measure_start
from measuring.step_speed import measure_allocations, measure_footprint, measure_steps

from neuralfield.system.device import select_device

ALWAYS = ("steps", "footprint", "drawing", "start", "allocations")
ON_REQUEST = ("fidelity", "original")
QUICK_EFFORT = Effort(sample_s=0.005, samples=3, warm_up_calls=1)
QUICK_EPOCHS = 40


def main(arguments: argparse.Namespace) -> int:
    """Measure the chosen parts; return 1 if a check of correctness failed."""
    device = select_device(arguments.device)
    quick, report = arguments.quick, Report()
    effort = QUICK_EFFORT if quick else Effort()
    found = describe(device)
    with_peers = torch_unsupported_reason(arguments) is None
    ceilings = measure_ceilings(device, effort, quick=quick, with_peers=with_peers)
    found["measured matrix product"] = f"{1e-12 * ceilings.matrix_flop_per_s:.4g} TFLOP/s"
    found["measured copy"] = f"{1e-12 * ceilings.copy_bytes_per_s:.3g} TB/s read plus written"
    found |= describe_options(arguments)
    epochs = QUICK_EPOCHS if quick else arguments.original_epochs
    measures: dict[str, Callable[[Context], None]] = {
        "steps": partial(measure_steps, chosen=arguments.rows),
        "footprint": partial(measure_footprint, points=arguments.footprint_points),
        "drawing": partial(measure_rendering, width_px=arguments.drawing_width),
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
    extra = ["fidelity"] if arguments.fidelity and "fidelity" not in arguments.parts else []
    for part in (*arguments.parts, *extra):
        deadline = Deadline(arguments.part_limit_s)
        measures[part](Context(device, ceilings, effort, deadline, report, quick, with_peers))
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
    parser = new_parser(__doc__, "output", "quick", "peers")
    add = parser.add_argument
    add("--parts", type=_parts, default=",".join(ALWAYS), help="all, or names separated by commas")
    add("--fidelity", action="store_true", help="add the part fidelity")
    add("--device", choices=("gpu", "cpu"), default="gpu", help="device to measure")
    add("--rows", default="", help="part steps: only rows whose names contain this")
    add("--part-limit-s", type=float, default=300.0, help="approximate maximum seconds of a part")
    add("--photo", type=Path, default=images.PHOTO, help="colour image of part fidelity")
    add("--drawing", type=Path, default=images.DRAWING, help="grey image of fidelity and original")
    add("--footprint-points", type=int, default=9, help="points in each pixel")
    add("--drawing-width", type=int, default=8192, help="width of the render in pixels")
    add("--original-epochs", type=int, default=803_000, help="epochs of part original")
    add(
        "--original-learning-rate",
        type=float,
        help="learning rate of part original (default: found by short runs)",
    )
    return parser


if __name__ == "__main__":
    start(main, _parser())
