"""Times training steps of the networks of speed.py, by each pass that covers them.

    python benchmarks/pass_speed.py --output benchmarks/results/NAME.md

Steps of all pixels and of some pixels are timed. One run on one GPU shows the cost of using the
passes for other GPUs there. All gradients are first compared with those of the tape in float64.
"""

import argparse
import os
from functools import partial
from typing import Any

from measuring.command_line import new_parser, start
from measuring.environment import describe
from measuring.measure import Deadline, Report
from measuring.ours import CUDA_MIXED, TrainingSteps, checked_error, first_gradient
from measuring.rows import BATCHES, STEPS, StepRow
from measuring.timing import in_turns, medians

from neuralfield.engines.cuda import field_engine
from neuralfield.system.device import Device, select_device

_ROUNDS, _SAMPLE_S = 7, 0.03
PASSES = [
    (f"{each.name}, {kind}" if kind else each.name, each, kind)
    for each in field_engine._PASSES
    for kind in ("", "portable")
    if not (kind and each.name == "layers")
]
"""Each pass by name; those with products of matrices that depend on the GPU also with those that
every GPU has."""


def main(arguments: argparse.Namespace) -> int:
    """Measure each row by each pass; return 1 if a gradient is wrong."""
    device, report = select_device("gpu"), Report()
    deadline = Deadline(arguments.limit_s)
    rows = [row for row in (*STEPS, *BATCHES) if row.optimizer != "muon"]
    for row in [row for row in rows if arguments.rows in row.name]:
        reference = first_gradient(row.task("float64", "adam"), device, "tape")
        for name, pass_type, kind in PASSES:
            field_engine._PASSES, os.environ["NEURALFIELD_PASS"] = (pass_type,), kind
            measure = partial(_measured, row, reference, device, report)
            report.attempt("passes", row.name, name, deadline, measure)
    report.add_table("passes", "step_ms", "milliseconds a step")
    report.add_table("passes", "gradient_error", "relative error of the first gradient")
    return report.publish(describe(device), arguments.output)


def _measured(row: StepRow, reference: Any, device: Device, report: Report) -> dict[str, Any]:
    gradient = first_gradient(row.task("mixed", "adam"), device, "cuda")
    error = checked_error(report, row.name, CUDA_MIXED, gradient, reference)
    with TrainingSteps(row.task("mixed"), device, "cuda") as steps:
        (samples,) = in_turns({"": steps}, device, _ROUNDS, _SAMPLE_S).values()
    return {"step_ms": 1e3 * medians(samples).clock_s, "gradient_error": error}


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(__doc__, "output")
    parser.add_argument("--rows", default="", help="only rows whose names contain this")
    parser.add_argument("--limit-s", type=float, default=300.0, help="approximate maximum seconds")
    return parser


if __name__ == "__main__":
    start(main, _parser())
