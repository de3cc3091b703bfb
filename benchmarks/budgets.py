"""Measures redraws after a given time on a processor, by the size of the batches.

    python benchmarks/budgets.py --preset quality --side 192 --factor 4 --pictures kodak/*.png
    python benchmarks/budgets.py --preset line_art --drawings cats --batches 256 512 1024

For each batch size, the processor time of a step is measured, and the network is trained for as
many steps as the threads could take in `--seconds` on an otherwise idle machine. Other load on the
machine therefore affects the waiting time, but not the results. The learning rate falls over these
steps. Networks are those of a config: `--config FILE --fields NAME ...`, or `--preset`.
"""

import argparse
import statistics
import time
from typing import Any

from measuring import ROOT
from measuring.command_line import new_parser, start
from measuring.config_networks import ConfigNetworks
from measuring.field_runs import ImagePair, fit_and_render
from measuring.measure import print_header, print_row
from measuring.ours import TrainingSteps, image_task
from redraws import add_image_options, image_pairs

from neuralfield.system.device import Device, select_device

_SAMPLES = 5
_SAMPLE_S = 1.0
_HEADER = ("network", "image", "batch", "steps", "redraw, dB", "over Lanczos", "fit, dB", "CPU s")


def main(arguments: argparse.Namespace) -> None:
    """Print a row for each network, image and batch."""
    networks = ConfigNetworks.chosen(arguments)
    device, threads = select_device("cpu"), arguments.threads
    print(f"{device.name}, {arguments.seconds:g} s of {threads} threads\n")
    print_header(*_HEADER)
    for image, pair in image_pairs(arguments).items():
        for name in networks.names:
            field, training = networks.settings(name, pair.small)
            for batch in arguments.batches or [training["batch_pixels"]]:
                training |= {"batch_pixels": batch}
                step_s = step_processor_s(pair, field, training, device, threads)
                training |= {"steps": max(1, int(arguments.seconds * threads / step_s))}
                started_s = time.process_time()
                found = fit_and_render(pair, field, training, device, "auto", threads)
                took_s = time.process_time() - started_s
                gain_db = found.render_db - pair.filter_db("lanczos")
                numbers = f"{found.render_db:.2f}", f"{gain_db:+.2f}", f"{found.fit_db:.2f}"
                print_row(
                    name, image, f"{batch:,}", f"{training['steps']:,}", *numbers, f"{took_s:.0f}"
                )


def step_processor_s(
    pair: ImagePair, field: dict[str, Any], training: dict[str, Any], device: Device, threads: int
) -> float:
    """Return the processor time of a step over all threads: the median of some samples."""
    task = image_task(pair.small, field, training)
    samples = []
    with TrainingSteps(task, device, "auto", threads) as steps:
        steps(2)
        for _ in range(_SAMPLES):
            started_s, taken = time.process_time(), steps.taken
            while time.process_time() < started_s + _SAMPLE_S:
                steps(1)
            samples.append((time.process_time() - started_s) / (steps.taken - taken))
    return statistics.median(samples)


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(__doc__, "threads")
    add = parser.add_argument
    ConfigNetworks.add_options(parser, ROOT / "config.yaml")
    add_image_options(parser)
    add("--seconds", type=float, default=138, help="training time on an otherwise idle machine")
    add(
        "--batches", nargs="+", type=int, help="pixels of each step (default: those of the network)"
    )
    return parser


if __name__ == "__main__":
    start(main, _parser(), blas_threads=1)
