"""Times training and rendering on this machine's cores, here and in PyTorch.

The systems are measured in turns, so that other load on the machine slows all of them equally.
README.md explains each number.
"""

import argparse
from typing import Any

import numpy as np
from measuring.command_line import new_parser, start
from measuring.environment import available_peers, describe, describe_options
from measuring.measure import Report, markdown_table, number_text
from measuring.ours import CPU, TAPE, TrainingSteps, checked_error, first_gradient
from measuring.rendering_speed import DeviceRendering
from measuring.rows import (
    CAFE,
    HASHGRID,
    HASHGRID_16,
    SIREN,
    STEPS,
    StepRow,
    reduced_field,
    rendering_multiply_adds,
    training_multiply_adds,
)
from measuring.turns import Sample, Work, in_turns, medians, ratios, with_one_core_blas
from threadpoolctl import threadpool_limits

from neuralfield.fields import ImageShape, build_field, field_settings
from neuralfield.system.device import require_cores, select_device
from neuralfield.tasks.image.image_model import Model

DEVICE = select_device("cpu")
PRODUCT = "matrix product"
_PRODUCT_SIDE, _QUICK_SIDE = 2048, 128
_SHAPE = ImageShape(768, 512, 3)
_ROWS_PER_BLOCK = 16

ROWS = (
    STEPS[1],
    StepRow("siren 3x128, 200x200 grey", SIREN | {"width": 128}, 200, 200, "grey"),
    STEPS[2],
    StepRow("finer 3x128, 200x200 grey", {"type": "finer", "width": 128}, 200, 200, "grey"),
    StepRow("gauss 3x128, 200x200 grey", {"type": "gauss", "width": 128}, 200, 200, "grey"),
    StepRow("wire 3x90, 200x200 grey", {"type": "wire"}, 200, 200, "grey"),
    StepRow("cafe, 200x200 grey", CAFE, 200, 200, "grey"),
    StepRow("hashgrid 8 x 2^12 + relu 2x64, 200x200 grey", HASHGRID, 200, 200, "grey"),
    StepRow("hashgrid 16 x 2^15 + relu 2x64, 200x200 grey", HASHGRID_16, 200, 200, "grey"),
)
COLUMNS = {
    "milliseconds": "ms",
    "times_ours": "times ours",
    "share_of_peak": "share of peak",
    "core_milliseconds": "ms of all cores",
    "cores_times_ours": "times ours",
    "cores_share_of_peak": "share of peak",
    "million_pixels_per_s": "million pixels a second",
}


class MatrixProduct:
    """A large float32 matrix product by NumPy's BLAS on all cores: an upper bound of the rate."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        side = _QUICK_SIDE if arguments.quick else _PRODUCT_SIDE
        factors = np.random.default_rng(0).normal(size=(2, side, side)).astype(np.float32)
        self._factors, self._product = factors, np.empty((side, side), np.float32)
        self._threads, self.multiply_adds = arguments.threads, side**3

    def __call__(self, calls: int) -> None:
        with threadpool_limits(self._threads):
            for _ in range(calls):
                np.matmul(*self._factors, out=self._product)


def add_entries(
    report: Report,
    part: str,
    row: str,
    samples: dict[str, list[Sample]],
    product: MatrixProduct,
    multiply_adds: int,
    pixels: int | None = None,
) -> None:
    """Report medians of times, and of ratios of times that were taken in the same turn."""
    floor = multiply_adds / product.multiply_adds
    for name, found in samples.items():
        middle = medians(found)
        if name == PRODUCT:
            work = 2e-9 * product.multiply_adds
            rates = {"gigaflop_per_s": work / middle.clock_s, "each_core": work / middle.cores_s}
            report.add(part, row, name, **rates)
            continue
        times, peak = ratios(found, samples[CPU.name]), ratios(samples[PRODUCT], found)
        numbers: dict[str, float] = {"milliseconds": 1e3 * middle.clock_s}
        if pixels is not None:
            numbers["million_pixels_per_s"] = 1e-6 * pixels / middle.clock_s
        numbers |= {
            "core_milliseconds": 1e3 * middle.cores_s,
            "times_ours": times.clock_s,
            "cores_times_ours": times.cores_s,
            "share_of_peak": floor * peak.clock_s,
            "cores_share_of_peak": floor * peak.cores_s,
            "lowest_ms": 1e3 * min(sample.clock_s for sample in found),
            "highest_ms": 1e3 * max(sample.clock_s for sample in found),
        }
        report.add(part, row, name, **numbers)


def measure_steps(report: Report, arguments: argparse.Namespace, peers: tuple[Any, ...]) -> None:
    """Measure a full-batch training step of each row, by each system."""
    threads, product = arguments.threads, MatrixProduct(arguments)
    chosen = [row for row in ROWS if arguments.rows in row.name]
    for row in (row.reduced() if arguments.quick else row for row in chosen):
        reference = first_gradient(row.task("float64", "adam"), DEVICE, "tape")
        works: dict[str, Work] = {PRODUCT: product}
        for ours in (CPU, TAPE):
            gradient = first_gradient(row.task("float32", "adam"), DEVICE, ours.engine)
            checked_error(report, row.name, ours, gradient, reference)
            steps = TrainingSteps(row.task("float32"), DEVICE, ours.engine, threads)
            works[ours.name] = with_one_core_blas(steps)
        for peer in peers:
            from torch_peers.fields import FieldSteps

            steps = FieldSteps(row.task("float32"), DEVICE, peer)
            checked_error(report, row.name, peer, steps.first_gradient(), reference)
            works[peer.name] = steps
        samples = in_turns(works, arguments.rounds, arguments.sample_s)
        add_entries(report, "steps", row.name, samples, product, training_multiply_adds(row))


def measure_rendering(
    report: Report, arguments: argparse.Namespace, peers: tuple[Any, ...]
) -> None:
    """Measure the pixels per second that a siren of 3x256 renders."""
    settings = field_settings(reduced_field(SIREN) if arguments.quick else SIREN)
    side = 64 if arguments.quick else arguments.drawing_side
    network = build_field(settings, _SHAPE)
    model = Model(settings, _SHAPE, "rgb", network.arrays, {"precision": "float32"})
    product, size = MatrixProduct(arguments), (side, side)
    works: dict[str, Work] = {PRODUCT: product}
    works[CPU.name] = DeviceRendering(model, size, DEVICE, arguments.threads)
    for peer in peers:
        from torch_peers.fields import TorchRendering

        works[peer.name] = TorchRendering(network, _SHAPE, size, _ROWS_PER_BLOCK, DEVICE, peer)
    samples = in_turns(works, arguments.rounds, arguments.sample_s)
    row = f"siren 3x256, rgb, {side}x{side}"
    multiply_adds = side**2 * rendering_multiply_adds(network)
    add_entries(report, "drawing", row, samples, product, multiply_adds, side**2)


def add_tables(report: Report) -> None:
    """Add a table for each part, and one for the matrix products."""
    report.add_columns("steps", "one full-batch step", COLUMNS)
    report.add_columns("drawing", "rendering an image", COLUMNS)
    lines = [
        [e["part"], e["row"], number_text(e["gigaflop_per_s"]), number_text(e["each_core"])]
        for e in report.entries
        if "gigaflop_per_s" in e
    ]
    header = ["matrix product beside", "row", "GFLOP/s", "GFLOP/s and core"]
    report.tables.append(markdown_table(header, lines))


def main(arguments: argparse.Namespace) -> int:
    """Measure the chosen parts; return 1 if a check of correctness failed."""
    require_cores(arguments.threads, "--threads")
    report, peers = Report(), available_peers(DEVICE, arguments)
    parts = {"steps": measure_steps, "drawing": measure_rendering}
    for part in arguments.parts.split(","):
        parts[part](report, arguments, peers)
    add_tables(report)
    found = describe(DEVICE) | describe_options(arguments, "threads", "rounds")
    return report.publish(found, arguments.output)


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(__doc__, "threads", "output", "peers", "compiled", "quick")
    add = parser.add_argument
    add("--parts", default="steps,drawing", help="names, separated by commas")
    add("--rows", default="", help="part steps: only rows whose names contain this")
    add("--rounds", type=int, default=9, help="samples of each system; medians are reported")
    add("--sample-s", type=float, default=0.5, help="minimum seconds of a sample")
    add("--drawing-side", type=int, default=512, help="part drawing: the image's sides in pixels")
    return parser


if __name__ == "__main__":
    start(main, _parser())
