"""How fast this package trains and draws on this machine's cores, beside PyTorch on the same cores.

What is compared is measured in turns, so that whatever else the machine does meets all alike;
README.md says what each number means.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from measuring.environment import describe, reason_against_torch
from measuring.measure import Report, markdown_table, number_text
from measuring.ours import CPU, TAPE, Ours, TrainingSteps, first_gradient, relative_error
from measuring.rendering_speed import DeviceDrawing
from measuring.rows import (
    HASHGRID,
    HASHGRID_16,
    SIREN,
    STEPS,
    Row,
    drawing_multiply_adds,
    reduced_field,
    training_multiply_adds,
)
from threadpoolctl import threadpool_limits

from neuralfield.fields import PictureShape, build_field, field_settings
from neuralfield.system.device import available_cores, require_cores, select_device
from neuralfield.system.errors import NeuralfieldError
from neuralfield.tasks.image.image_model import Model

Work = Callable[[int], Any]
"""Does something as often as it is told."""

DEVICE = select_device("cpu")
PRODUCT = "matrix product"
_PRODUCT_SIDE, _QUICK_SIDE = 2048, 128
_SHAPE = PictureShape(768, 512, 3)
_ROWS_PER_BLOCK = 16

ROWS = (
    STEPS[1],
    Row("siren 3x128, 200x200 grey", SIREN | {"width": 128}, 200, 200, "grey"),
    STEPS[2],
    Row("finer 3x128, 200x200 grey", {"type": "finer", "width": 128}, 200, 200, "grey"),
    Row("gauss 3x128, 200x200 grey", {"type": "gauss", "width": 128}, 200, 200, "grey"),
    Row("hashgrid 8 x 2^12 + relu 2x64, 200x200 grey", HASHGRID, 200, 200, "grey"),
    Row("hashgrid 16 x 2^15 + relu 2x64, 200x200 grey", HASHGRID_16, 200, 200, "grey"),
)


class Product:
    """A large float32 matrix product, by NumPy's BLAS on all cores: what cores can do at most."""

    def __init__(self, side: int, threads: int) -> None:
        factors = np.random.default_rng(0).normal(size=(2, side, side)).astype(np.float32)
        self._factors, self._product = factors, np.empty((side, side), np.float32)
        self.threads, self.multiply_adds = threads, side**3

    def __call__(self, calls: int) -> None:
        with threadpool_limits(self.threads):
            for _ in range(calls):
                np.matmul(*self._factors, out=self._product)


@dataclass
class Sample:
    """Seconds of one call on the clock, and of all cores together."""

    clock_s: float
    cores_s: float


def in_turns(works: dict[str, Work], rounds: int, sample_s: float) -> dict[str, list[Sample]]:
    """`rounds` samples of each, taken in turns after one to warm up."""
    calls = {}
    for name, work in works.items():
        work(1)
        start_s = time.perf_counter()
        work(1)
        calls[name] = max(1, math.ceil(sample_s / (time.perf_counter() - start_s)))
    found: dict[str, list[Sample]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            start_s, start_cores_s = time.perf_counter(), time.process_time()
            work(calls[name])
            clock_s, cores_s = time.perf_counter() - start_s, time.process_time() - start_cores_s
            found[name].append(Sample(clock_s / calls[name], cores_s / calls[name]))
    return found


def add_entries(
    report: Report,
    part: str,
    row: str,
    samples: dict[str, list[Sample]],
    product: Product,
    multiply_adds: int,
    pixels: int | None = None,
) -> None:
    """Medians of times, and of ratios of times that were taken in the same turn."""
    ours, peak = samples[CPU.name], samples[PRODUCT]
    for name, found in samples.items():
        clock_s = [sample.clock_s for sample in found]
        cores_s = median(sample.cores_s for sample in found)
        if name == PRODUCT:
            work = 2e-9 * product.multiply_adds
            rates = {"gigaflop_per_s": work / median(clock_s), "each_core": work / cores_s}
            report.add(part, row, name, **rates)
            continue
        numbers: dict[str, float] = {"milliseconds": 1e3 * median(clock_s)}
        if pixels is not None:
            numbers["million_pixels_per_s"] = 1e-6 * pixels / median(clock_s)
        floor = multiply_adds / product.multiply_adds
        numbers |= {
            "core_milliseconds": 1e3 * cores_s,
            "times_ours": median(_ratios(found, ours, "clock_s")),
            "cores_times_ours": median(_ratios(found, ours, "cores_s")),
            "share_of_peak": floor * median(_ratios(peak, found, "clock_s")),
            "cores_share_of_peak": floor * median(_ratios(peak, found, "cores_s")),
            "lowest_ms": 1e3 * min(clock_s),
            "highest_ms": 1e3 * max(clock_s),
        }
        report.add(part, row, name, **numbers)


def _ratios(numerators: list[Sample], denominators: list[Sample], what: str) -> list[float]:
    """Of samples that were taken in the same turn."""
    pairs = zip(numerators, denominators, strict=True)
    return [getattr(above, what) / getattr(below, what) for above, below in pairs]


def measure_steps(report: Report, arguments: argparse.Namespace, peers: tuple[Any, ...]) -> None:
    """A full-batch training step of each row, by each system."""
    threads, product = arguments.threads, make_product(arguments)
    chosen = [row for row in ROWS if arguments.rows in row.name]
    for row in (row.reduced() if arguments.quick else row for row in chosen):
        reference = first_gradient(row.task("float64", "adam"), DEVICE, "tape")
        works: dict[str, Work] = {PRODUCT: product}
        for ours in (CPU, TAPE):
            gradient = first_gradient(row.task("float32", "adam"), DEVICE, ours.engine)
            require_gradient(report, row, ours, relative_error(gradient, reference))
            # the engines hold BLAS to one core for each thread, as `fit` does
            works[ours.name] = _with_one_core_blas(
                TrainingSteps(row.task("float32"), DEVICE, ours.engine, threads)
            )
        for peer in peers:
            from torch_peers.fields import TorchSteps

            steps = TorchSteps(row.task("float32"), DEVICE, peer)
            error = relative_error(steps.first_gradient(), reference)
            require_gradient(report, row, peer, error)
            works[peer.name] = steps
        seconds = in_turns(works, arguments.rounds, arguments.sample_s)
        add_entries(report, "steps", row.name, seconds, product, training_multiply_adds(row))


def require_gradient(report: Report, row: Row, system: Ours | Any, error: float) -> None:
    """Nothing wrong is timed."""
    what = f"{row.name}, {system.name}: gradient is off by {error:.2g}"
    report.require(error <= system.gradient_limit, what)


def measure_drawing(report: Report, arguments: argparse.Namespace, peers: tuple[Any, ...]) -> None:
    """Pixels a second of a redraw by a siren of 3x256."""
    settings = field_settings(reduced_field(SIREN) if arguments.quick else SIREN)
    side = 64 if arguments.quick else arguments.drawing_side
    network = build_field(settings, _SHAPE)
    model = Model(settings, _SHAPE, "rgb", network.arrays, {"precision": "float32"})
    product, size = make_product(arguments), (side, side)
    works: dict[str, Work] = {PRODUCT: product}
    works[CPU.name] = DeviceDrawing(model, size, DEVICE, arguments.threads)
    for peer in peers:
        from torch_peers.fields import TorchDrawing

        works[peer.name] = TorchDrawing(network, _SHAPE, size, _ROWS_PER_BLOCK, DEVICE, peer)
    seconds = in_turns(works, arguments.rounds, arguments.sample_s)
    row = f"siren 3x256, rgb, {side}x{side}"
    multiply_adds = side**2 * drawing_multiply_adds(network)
    add_entries(report, "drawing", row, seconds, product, multiply_adds, side**2)


def make_product(arguments: argparse.Namespace) -> Product:
    """The ceiling of this run."""
    return Product(_QUICK_SIDE if arguments.quick else _PRODUCT_SIDE, arguments.threads)


def _with_one_core_blas(steps: Work) -> Work:
    def run(calls: int) -> None:
        with threadpool_limits(1):
            steps(calls)

    return run


def add_tables(report: Report) -> None:
    """Everything that was measured, as Markdown."""
    columns = {
        "milliseconds": "ms",
        "times_ours": "times ours",
        "share_of_peak": "share of peak",
        "core_milliseconds": "ms of all cores",
        "cores_times_ours": "times ours",
        "cores_share_of_peak": "share of peak",
        "million_pixels_per_s": "million pixels a second",
    }
    for part, title in (("steps", "one full-batch step"), ("drawing", "drawing a picture")):
        entries = [e for e in report.entries if e["part"] == part and "milliseconds" in e]
        shown = {key: name for key, name in columns.items() if any(key in e for e in entries)}
        lines = [
            [e["row"], e["system"], *(number_text(e[key]) if key in e else "-" for key in shown)]
            for e in entries
        ]
        if lines:
            report.tables.append(markdown_table([title, "system", *shown.values()], lines))
    products = [e for e in report.entries if "gigaflop_per_s" in e]
    lines = [
        [e["part"], e["row"], number_text(e["gigaflop_per_s"]), number_text(e["each_core"])]
        for e in products
    ]
    header = ["matrix product beside", "row", "GFLOP/s", "GFLOP/s and core"]
    report.tables.append(markdown_table(header, lines))


def main(arguments: argparse.Namespace) -> int:
    """Measure; 1 where a check of correctness was not passed."""
    require_cores(arguments.threads, "--threads")
    report, found = Report(), describe(DEVICE)
    found |= {"threads": arguments.threads, "rounds": arguments.rounds}
    reason = reason_against_torch() if arguments.peers else "--no-peers"
    peers: tuple[Any, ...] = ()
    if reason:
        found["peers"] = f"left out: {reason}"
    else:
        from torch_peers.fields import CPU_PEERS, use_cores

        use_cores(arguments.threads)
        peers = CPU_PEERS if arguments.compiled else CPU_PEERS[:1]
    if arguments.quick:
        found["sizes"] = "tiny (--quick): these numbers say nothing of speed"
    parts = {"steps": measure_steps, "drawing": measure_drawing}
    for part in arguments.parts.split(","):
        parts[part](report, arguments, peers)
    add_tables(report)
    return report.publish(found, arguments.output)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = parser.add_argument
    add("--parts", default="steps,drawing", help="names with a comma")
    add("--rows", default="", help="part steps: only rows whose names contain this")
    add("--threads", type=int, default=available_cores(), help="cores to use, by all systems")
    add("--output", type=Path, help="Markdown file to write; a JSON file is put beside it")
    add("--rounds", type=int, default=9, help="samples of each system; medians are reported")
    add("--sample-s", type=float, default=0.5, help="seconds that a sample takes at least")
    add("--drawing-side", type=int, default=512, help="pixels")
    add("--peers", action=argparse.BooleanOptionalAction, default=True, help="PyTorch too")
    add("--compiled", action=argparse.BooleanOptionalAction, default=True, help="torch.compile too")
    add("--quick", action="store_true", help="tiny sizes: to see that everything runs")
    return parser


if __name__ == "__main__":
    try:
        sys.exit(main(_parser().parse_args()))
    except NeuralfieldError as error:
        sys.exit(str(error))
