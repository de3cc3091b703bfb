"""Times an epoch of a classifier here and in PyTorch, with the number of images of MNIST.

The systems are measured in turns, so that other load on the machine slows all of them equally.
README.md explains each number.
"""

import argparse
import math
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
from measuring.command_line import new_parser, start
from measuring.environment import available_peers, describe, describe_options
from measuring.measure import Report, synchronize_all_streams
from measuring.ours import CUDA_FLOAT32, TAPE, Ours, TrainingSteps, checked_error, first_gradient
from measuring.turns import Work, in_turns, medians, ratios, with_one_core_blas

from neuralfield.nn.sampling import Batches
from neuralfield.system.device import Device, keep_freed_memory, select_device
from neuralfield.tasks.classifier.classifier_task import ClassifierTask
from neuralfield.tasks.classifier.convolutional_network import ConvolutionalClassifier
from neuralfield.tasks.classifier.labelled import LabelledImages
from neuralfield.tasks.training_settings import ClassifierTraining

BLOCKS = (16, 32, 64, 128, 256)
BLOCK_STEPS = 4
COLUMNS = {
    "seconds": "s",
    "times_ours": "times ours",
    "core_seconds": "s of all cores",
    "cores_times_ours": "times ours",
}


def generated_task(arguments: argparse.Namespace) -> ClassifierTask:
    """Return a task with random images of 28 x 28 and labels from 0 to 9, for timing only."""
    random = np.random.default_rng(0)
    count, batch = (1_000, 100) if arguments.quick else (arguments.pictures, arguments.batch)
    images = random.integers(0, 256, (count, 28, 28), dtype=np.uint8)
    labelled = LabelledImages("generated", images, np.arange(count) % 10)
    training = ClassifierTraining(steps=10**9, batch_samples=batch, precision="float32")
    return ClassifierTask(labelled, ConvolutionalClassifier(), training)


def measure_epoch(report: Report, device: Device, arguments: argparse.Namespace) -> None:
    """Measure the steps of one epoch by each system."""
    task = generated_task(arguments)
    count, batch = task.labelled.count, task.training.batch_samples
    row, steps = f"{count:,} images of 28x28, batch {batch}", math.ceil(count / batch)
    # the optimizer's moments start at 0, so its settings do not affect the first gradient
    exact = replace(task, training=replace(task.training, precision="float64"))
    reference = first_gradient(exact, device, TAPE.engine)
    works: dict[str, Work] = {}
    for ours in (CUDA_FLOAT32, TAPE) if device.kind == "gpu" else (TAPE,):
        checked_error(report, row, ours, first_gradient(task, device, ours.engine), reference)
        works[ours.name] = _our_steps(task, device, ours, arguments.threads, steps)
    fastest = next(iter(works))
    for peer in available_peers(device, arguments):
        from torch_peers.classifier import ClassifierSteps

        theirs = ClassifierSteps(task, device, peer)
        samples = Batches(np, count, batch, task.training.random_seed).indices(0)
        checked_error(report, row, peer, theirs.first_gradient(samples), reference)
        works[peer.name] = _finished(theirs, device, steps)
    samples = in_turns(works, arguments.rounds, sample_s=0)
    for name, found in samples.items():
        middle, times = medians(found), ratios(found, samples[fastest])
        report.add(
            *("epoch", row, name),
            **{"seconds": middle.clock_s, "core_seconds": middle.cores_s},
            **{"times_ours": times.clock_s, "cores_times_ours": times.cores_s},
        )


def measure_blocks(report: Report, device: Device, arguments: argparse.Namespace) -> None:
    """Measure a step in blocks of several sizes, with one thread and with all threads."""
    task, steps = generated_task(arguments), 1 if arguments.quick else BLOCK_STEPS
    works: dict[str, Work] = {}
    for threads in sorted({1, arguments.threads}):
        for block in BLOCKS:
            sizes = {device.kind: block}
            with patch("neuralfield.tasks.classifier.classifier_objective.BLOCK_IMAGES", sizes):
                name = f"{block} at once, {threads} thread{'s' if threads > 1 else ''}"
                works[name] = _our_steps(task, device, TAPE, threads, steps)
    for name, found in in_turns(works, arguments.rounds, sample_s=0).items():
        middle = medians(found)
        seconds = {"seconds": middle.clock_s / steps, "core_seconds": middle.cores_s / steps}
        report.add("blocks", f"a step of {task.training.batch_samples}", name, **seconds)


def _our_steps(task: ClassifierTask, device: Device, ours: Ours, threads: int, count: int) -> Work:
    steps = _finished(TrainingSteps(task, device, ours.engine, threads), device, count)
    return with_one_core_blas(steps) if device.kind == "cpu" else steps


def _finished(steps: Work, device: Device, count: int) -> Work:
    """Return a function whose calls take `count` steps each, and wait until they are done."""

    def run(calls: int) -> Any:
        steps(calls * count)
        synchronize_all_streams(device)

    return run


MEASURES = {"epoch": measure_epoch, "blocks": measure_blocks}


def main(arguments: argparse.Namespace) -> int:
    """Measure the chosen parts; return 1 if a check of correctness failed."""
    device, report = select_device(arguments.device), Report()
    keep_freed_memory()
    for part in arguments.parts.split(","):
        MEASURES[part](report, device, arguments)
    for part in MEASURES:
        report.add_columns(part, part, COLUMNS)
    found = describe(device) | describe_options(arguments, "threads", "rounds")
    return report.publish(found, arguments.output)


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(__doc__, "threads", "output", "peers", "compiled", "quick")
    add = parser.add_argument
    add("--parts", default="epoch", help=f"some of {', '.join(MEASURES)}, separated by commas")
    add("--device", choices=("gpu", "cpu"), default="cpu", help="device to measure")
    add("--rounds", type=int, default=5, help="samples of each system; medians are reported")
    add("--pictures", type=int, default=60_000, help="images of an epoch")
    add("--batch", type=int, default=512, help="images of a step")
    return parser


if __name__ == "__main__":
    start(main, _parser())
