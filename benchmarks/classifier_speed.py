"""How long an epoch of a classifier takes, beside PyTorch: as many pictures as MNIST has.

What is compared is measured in turns, so that whatever else the machine does meets all alike;
README.md says what each number means.
"""

import argparse
import math
import sys
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np
from cpu_speed import Sample, in_turns
from measuring.environment import describe, reason_against_torch
from measuring.measure import Report, markdown_table, number_text, synchronize_all_streams
from measuring.ours import CUDA_FLOAT32, TAPE, Ours, TrainingSteps, first_gradient, relative_error
from threadpoolctl import threadpool_limits

from neuralfield.nn.sampling import Batches
from neuralfield.system.device import Device, available_cores, keep_freed_memory, select_device
from neuralfield.system.errors import NeuralfieldError
from neuralfield.tasks.classifier.classifier_task import ClassifierTask
from neuralfield.tasks.classifier.convolutional_network import ConvolutionalClassifier
from neuralfield.tasks.classifier.labelled import LabelledPictures
from neuralfield.tasks.training_settings import ClassifierTraining

BLOCKS = (16, 32, 64, 128, 256)
BLOCK_STEPS = 4
PARTS = ("epoch", "blocks")


def generated_task(arguments: argparse.Namespace) -> ClassifierTask:
    """Pictures of 28 x 28 with labels from 0 to 9, both of random numbers: only time counts."""
    random = np.random.default_rng(0)
    count, batch = (1_000, 100) if arguments.quick else (arguments.pictures, arguments.batch)
    pictures = random.integers(0, 256, (count, 28, 28), dtype=np.uint8)
    labelled = LabelledPictures("generated", pictures, np.arange(count) % 10)
    training = ClassifierTraining(steps=10**9, batch_samples=batch, precision="float32")
    return ClassifierTask(labelled, ConvolutionalClassifier(), training)


class OurSteps:
    """Steps of one of our engines, on the tape each product on one core; call it with how many."""

    def __init__(
        self, task: ClassifierTask, device: Device, ours: Ours, threads: int, steps: int
    ) -> None:
        self._steps = TrainingSteps(task, device, ours.engine, threads)
        self._device, self._count = device, steps

    def __call__(self, calls: int) -> None:
        # as `fit` does
        with threadpool_limits(1 if self._device.kind == "cpu" else None):
            self._steps(calls * self._count)
            synchronize_all_streams(self._device)


def measure_epoch(report: Report, device: Device, arguments: argparse.Namespace) -> None:
    """As many steps as go through all pictures once, by each system."""
    task = generated_task(arguments)
    count, batch = task.labelled.count, task.training.batch_samples
    row, steps = f"{count:,} pictures of 28x28, batch {batch}", math.ceil(count / batch)
    # the optimizer's moments start at 0: its settings make no difference to the first of them
    exact = replace(task, training=replace(task.training, precision="float64"))
    reference = first_gradient(exact, device, TAPE.engine)
    works: dict[str, Any] = {}
    for ours in (CUDA_FLOAT32, TAPE) if device.kind == "gpu" else (TAPE,):
        error = relative_error(first_gradient(task, device, ours.engine), reference)
        report.require(error <= ours.gradient_limit, f"{ours.name}: gradient is off by {error:.2g}")
        works[ours.name] = OurSteps(task, device, ours, arguments.threads, steps)
    fastest = next(iter(works))
    for peer in _peers(device, arguments):
        from torch_peers.classifier import TorchSteps

        theirs = TorchSteps(task, device, peer)
        samples = Batches(np, count, batch, task.training.random_seed).indices(0)
        error = relative_error(theirs.first_gradient(samples), reference)
        what = f"{peer.name}: gradient is off by {error:.2g}"
        report.require(error <= peer.gradient_limit, what)
        works[peer.name] = _timed(theirs, device, steps)
    samples = in_turns(works, arguments.rounds, sample_s=0)
    for name, found in samples.items():
        report.add("epoch", row, name, **_numbers(found, samples[fastest]))


def measure_blocks(report: Report, device: Device, arguments: argparse.Namespace) -> None:
    """A step with so many pictures at once, on one thread and on all."""
    task = generated_task(arguments)
    works = {}
    for threads in sorted({1, arguments.threads}):
        for block in BLOCKS:
            sizes = {device.kind: block}
            with patch("neuralfield.tasks.classifier.classifier_objective.BLOCK_PICTURES", sizes):
                name = f"{block} at once, {threads} thread{'s' if threads > 1 else ''}"
                steps = 1 if arguments.quick else BLOCK_STEPS
                works[name] = OurSteps(task, device, TAPE, threads, steps)
    samples = in_turns(works, arguments.rounds, sample_s=0)
    per_step = 1 if arguments.quick else BLOCK_STEPS
    for name, found in samples.items():
        each = [Sample(s.clock_s / per_step, s.cores_s / per_step) for s in found]
        report.add("blocks", f"a step of {task.training.batch_samples}", name, **_numbers(each))


def _timed(theirs: Any, device: Device, steps: int) -> Any:
    def run(calls: int) -> None:
        theirs(calls * steps)
        synchronize_all_streams(device)

    return run


def _numbers(found: list[Sample], ours: list[Sample] | None = None) -> dict[str, float]:
    """Medians of times, and of ratios of times that were taken in the same turn."""
    numbers = {
        "seconds": median(sample.clock_s for sample in found),
        "core_seconds": median(sample.cores_s for sample in found),
    }
    if ours:
        pairs = list(zip(found, ours, strict=True))
        numbers["times_ours"] = median(a.clock_s / b.clock_s for a, b in pairs)
        numbers["cores_times_ours"] = median(a.cores_s / b.cores_s for a, b in pairs)
    return numbers


def _peers(device: Device, arguments: argparse.Namespace) -> tuple[Any, ...]:
    if not arguments.peers or reason_against_torch():
        return ()
    from torch_peers.fields import CPU_PEERS, PEERS, use_cores

    use_cores(arguments.threads)
    known = CPU_PEERS if device.kind == "cpu" else tuple(p for p in PEERS if not p.half)
    return known if arguments.compiled else known[:1]


def add_tables(report: Report) -> None:
    """Everything that was measured, as Markdown."""
    columns = {
        "seconds": "s",
        "times_ours": "times ours",
        "core_seconds": "s of all cores",
        "cores_times_ours": "times ours",
    }
    for part in PARTS:
        entries = [entry for entry in report.entries if entry["part"] == part]
        shown = {key: name for key, name in columns.items() if any(key in e for e in entries)}
        lines = [[e["row"], e["system"], *(number_text(e[key]) for key in shown)] for e in entries]
        if lines:
            report.tables.append(markdown_table([part, "system", *shown.values()], lines))


def main(arguments: argparse.Namespace) -> int:
    """Measure; 1 where a check of correctness was not passed."""
    device, report = select_device(arguments.device), Report()
    keep_freed_memory()
    found = describe(device) | {"threads": arguments.threads, "rounds": arguments.rounds}
    if reason := (reason_against_torch() if arguments.peers else "--no-peers"):
        found["peers"] = f"left out: {reason}"
    if arguments.quick:
        found["sizes"] = "tiny (--quick): these numbers say nothing of speed"
    measures = {"epoch": measure_epoch, "blocks": measure_blocks}
    for part in arguments.parts.split(","):
        measures[part](report, device, arguments)
    add_tables(report)
    return report.publish(found, arguments.output)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = parser.add_argument
    add("--parts", default="epoch", help=f"some of {', '.join(PARTS)}, with a comma")
    add("--device", choices=("gpu", "cpu"), default="cpu")
    add("--threads", type=int, default=available_cores(), help="cores to use, by all systems")
    add("--output", type=Path, help="Markdown file to write; a JSON file is put beside it")
    add("--rounds", type=int, default=5, help="samples of each system; medians are reported")
    add("--pictures", type=int, default=60_000)
    add("--batch", type=int, default=512)
    add("--peers", action=argparse.BooleanOptionalAction, default=True, help="PyTorch too")
    add("--compiled", action=argparse.BooleanOptionalAction, default=True, help="torch.compile too")
    add("--quick", action="store_true", help="tiny sizes: to see that everything runs")
    return parser


if __name__ == "__main__":
    try:
        sys.exit(main(_parser().parse_args()))
    except NeuralfieldError as error:
        sys.exit(str(error))
