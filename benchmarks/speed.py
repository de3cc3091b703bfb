"""Times training steps and renders on this machine, here and in PyTorch.

    python benchmarks/speed.py --output benchmarks/results/NAME.md
    python benchmarks/speed.py --device cpu --rows hashgrid --rounds 15 --no-compiled
    python benchmarks/speed.py --parts steps --no-peers

Gradients and rendered values are compared with those of the tape in float64 before anything is
timed. README.md explains each number.
"""

import argparse
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np
from measuring.command_line import new_parser, start
from measuring.device_rendering import DeviceRendering
from measuring.environment import available_peers, describe, torch_unsupported_reason
from measuring.measure import Report, reason_of
from measuring.ours import Ours, TrainingSteps, checked_error, first_gradient, systems
from measuring.rows import (
    FREQUENCY_4X64,
    PROCESSOR_STEPS,
    SIREN,
    STEPS,
    StepRow,
    reduced_field,
    rendering_multiply_adds,
    training_multiply_adds,
)
from measuring.timing import (
    MatrixProduct,
    Sample,
    Work,
    in_turns,
    medians,
    ratios,
    with_blas_threads,
)

from neuralfield.fields import ImageShape, build_field, field_settings
from neuralfield.system.device import require_cores, select_device
from neuralfield.tasks.image.image_model import Model

PRODUCT = "matrix product"
RENDERED = {"siren 3x256": SIREN, "fourier 4x64": FREQUENCY_4X64}
_SHAPE = ImageShape(768, 512, 3)
_SIDES_PX, _QUICK_SIDE_PX = {"cpu": 512, "gpu": 8192}, 64
_ROWS_PER_BLOCK = {"cpu": 16, "gpu": 128}
_RENDER_ERROR_LIMIT = 2e-2

Make = Callable[[], AbstractContextManager[Work]]
"""A function that prepares a system; it raises if the system cannot be measured."""

COLUMNS = {
    "milliseconds": "ms",
    "times_ours": "times ours",
    "share_of_peak": "share of peak",
    "core_milliseconds": "ms of all cores",
    "cores_times_ours": "times ours",
    "cores_share_of_peak": "share of peak",
    "million_pixels_per_s": "million pixels a second",
    "gradient_error": "error of the gradient",
}


class Benchmark:
    """The device, the options of a run, and its report."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments, self.report = arguments, Report()
        self.device = select_device(arguments.device)
        self.peers = available_peers(self.device, arguments)
        self._product = MatrixProduct(self.device, quick=arguments.quick)
        self._errors: dict[str, float] = {}

    def measure_steps(self) -> None:
        """Measure a full-batch training step of each row, by each system."""
        rows = STEPS if self.device.kind == "gpu" else PROCESSOR_STEPS
        for row in (row for row in rows if self.arguments.rows in row.name):
            row = row.reduced() if self.arguments.quick else row
            reference = first_gradient(row.task("float64", "adam"), self.device, "tape")
            makes: dict[str, Make] = {
                ours.name: partial(self._our_steps, row, ours, reference)
                for ours in systems(self.device)
            }
            for peer in self.peers:
                makes[peer.name] = partial(self._peer_steps, row, peer, reference)
            self._measure("steps", row.name, makes, training_multiply_adds(row))

    def measure_rendering(self) -> None:
        """Measure the pixels per second that networks with random weights render."""
        side_px = self.arguments.side or _SIDES_PX[self.device.kind]
        side_px = _QUICK_SIDE_PX if self.arguments.quick else side_px
        for name, field in RENDERED.items():
            settings = field_settings(reduced_field(field) if self.arguments.quick else field)
            network = build_field(settings, _SHAPE)
            model = Model(settings, _SHAPE, "rgb", network.arrays, {"precision": "mixed"})
            row = f"{name}, rgb, {side_px}x{side_px}"
            makes: dict[str, Make] = {"ours": partial(self._our_rendering, model, row, side_px)}
            for peer in self.peers:
                makes[peer.name] = partial(self._peer_rendering, network, side_px, peer)
            multiply_adds = side_px**2 * rendering_multiply_adds(network)
            self._measure("drawing", row, makes, multiply_adds, side_px**2)

    def _measure(
        self,
        part: str,
        row: str,
        makes: dict[str, Make],
        multiply_adds: int,
        pixels: int | None = None,
    ) -> None:
        """Time systems in turns; on a GPU each alone, because all may not fit into its memory."""
        self._errors.clear()
        names = list(makes)
        groups = [[name] for name in names] if self.device.kind == "gpu" else [names]
        ours: list[Sample] = []
        for group in groups:
            product = with_blas_threads(self._product, self.device, self.arguments.threads)
            works: dict[str, Work] = {PRODUCT: product}
            with ExitStack() as stack:
                for name in group:
                    try:
                        works[name] = stack.enter_context(makes[name]())
                    except Exception as error:  # of any library, so that others are measured
                        self.report.add(part, row, name, left_out=reason_of(error))
                rounds, sample_s = self.arguments.rounds, self.arguments.sample_s
                samples = in_turns(works, self.device, rounds, sample_s)
            of_product = samples.pop(PRODUCT)
            ours = ours or next(iter(samples.values()), [])
            for name, found in samples.items():
                numbers = self._numbers(found, ours, of_product, multiply_adds, pixels)
                if name in self._errors:
                    numbers["gradient_error"] = self._errors[name]
                self.report.add(part, row, name, **numbers)

    def _numbers(
        self,
        found: list[Sample],
        ours: list[Sample],
        product: list[Sample],
        multiply_adds: int,
        pixels: int | None,
    ) -> dict[str, float]:
        """Return medians of times, and of ratios of times that were taken in the same turn."""
        share, middle = multiply_adds / self._product.multiply_adds, medians(found)
        times, peak = ratios(found, ours), ratios(product, found)
        numbers = {
            "milliseconds": 1e3 * middle.clock_s,
            "times_ours": times.clock_s,
            "share_of_peak": share * peak.clock_s,
            "lowest_ms": 1e3 * min(sample.clock_s for sample in found),
            "highest_ms": 1e3 * max(sample.clock_s for sample in found),
            "product_teraflop_per_s": 2e-12
            * self._product.multiply_adds
            / medians(product).clock_s,
        }
        if self.device.kind == "cpu":
            numbers |= {
                "core_milliseconds": 1e3 * middle.cores_s,
                "cores_times_ours": times.cores_s,
                "cores_share_of_peak": share * peak.cores_s,
            }
        if pixels is not None:
            numbers["million_pixels_per_s"] = 1e-6 * pixels / middle.clock_s
        return numbers

    @contextmanager
    def _our_steps(
        self, row: StepRow, ours: Ours, reference: dict[str, np.ndarray]
    ) -> Iterator[Work]:
        gradient = first_gradient(row.task(ours.precision, "adam"), self.device, ours.engine)
        self._errors[ours.name] = checked_error(self.report, row.name, ours, gradient, reference)
        task, threads = row.task(ours.precision), self.arguments.threads
        with TrainingSteps(task, self.device, ours.engine, threads) as steps:
            yield with_blas_threads(steps, self.device, 1)  # engines use threads themselves

    @contextmanager
    def _peer_steps(
        self, row: StepRow, peer: Any, reference: dict[str, np.ndarray]
    ) -> Iterator[Work]:
        from torch_peers.fields import FieldSteps, release_memory

        steps = FieldSteps(row.task("float32"), self.device, peer)
        gradient = steps.first_gradient()
        self._errors[peer.name] = checked_error(self.report, row.name, peer, gradient, reference)
        yield steps
        del steps
        release_memory()

    @contextmanager
    def _our_rendering(self, model: Model, row: str, side_px: int) -> Iterator[Work]:
        rendering = DeviceRendering(model, side_px, self.device, self.arguments.threads)
        error = rendering.error()
        self.report.require(error <= _RENDER_ERROR_LIMIT, f"{row}: values are off by {error:.2g}")
        yield rendering

    @contextmanager
    def _peer_rendering(self, network: Any, side_px: int, peer: Any) -> Iterator[Work]:
        from torch_peers.fields import TorchRendering, release_memory

        rows = _ROWS_PER_BLOCK[self.device.kind]
        rendering = TorchRendering(network, _SHAPE, (side_px, side_px), rows, self.device, peer)
        yield rendering
        del rendering
        release_memory()


PARTS = {"steps": Benchmark.measure_steps, "drawing": Benchmark.measure_rendering}


def main(arguments: argparse.Namespace) -> int:
    """Measure the chosen parts; return 1 if a check of correctness failed."""
    require_cores(arguments.threads, "--threads")
    benchmark = Benchmark(arguments)
    for part in arguments.parts.split(","):
        PARTS[part](benchmark)
    benchmark.report.add_columns("steps", "one full-batch step", COLUMNS)
    benchmark.report.add_columns("drawing", "rendering an image", COLUMNS)
    found = describe(benchmark.device) | {"threads": arguments.threads, "rounds": arguments.rounds}
    if reason := torch_unsupported_reason(arguments):
        found["peers"] = f"left out: {reason}"
    if arguments.quick:
        found["sizes"] = "tiny (--quick): these numbers are no measure of speed"
    return benchmark.report.publish(found, arguments.output)


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(__doc__, "device", "threads", "output", "peers", "compiled", "quick")
    add = parser.add_argument
    add("--parts", default=",".join(PARTS), help="names, separated by commas")
    add("--rows", default="", help="part steps: only rows whose names contain this")
    add("--rounds", type=int, default=9, help="samples of each system; medians are reported")
    add("--sample-s", type=float, default=0.1, help="minimum seconds of a sample")
    add("--side", type=int, help="part drawing: the image's sides in pixels, a multiple of 128")
    return parser


if __name__ == "__main__":
    start(main, _parser())
