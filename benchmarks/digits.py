"""Measures the accuracy of settings on the shipped digits, by cross-validation or held out.

python benchmarks/digits.py                       # choose settings without the held-out digits
python benchmarks/digits.py --held-out --seeds 5  # measure the chosen settings with several seeds
"""

import argparse
import statistics
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import yaml
from measuring import ROOT
from measuring.command_line import new_parser, start
from measuring.measure import markdown_table
from measuring.ours import TrainingSteps
from threadpoolctl import threadpool_limits

from config import configuration
from neuralfield.system.device import HOST, keep_freed_memory
from neuralfield.tasks.classifier.classifier_model import ClassifierModel
from neuralfield.tasks.classifier.classifier_task import ClassifierTask
from neuralfield.tasks.classifier.labelled import (
    HELD_OUT,
    TRAINING,
    LabelledImages,
    find_files,
    read_labelled,
)

FOLDS = 5

CANDIDATES: dict[str, dict[str, dict[str, Any]]] = {
    "as shipped": {},
    "no dropout": {"network": {"dropout": 0.0}},
    "channels 16, 32": {"network": {"channels": [16, 32]}},
    "half the learning rate": {"training": {"learning_rate": 1e-3}},
    "twice the learning rate": {"training": {"learning_rate": 4e-3}},
    "half the steps": {"training": {"steps": 500}},
}
"""Changes to the shipped settings, by name."""


def main(arguments: argparse.Namespace) -> None:
    """Print a table of the candidates, or of the held-out digits."""
    keep_freed_memory()
    shipped = _shipped()
    training_set = read_labelled(*find_files(ROOT / shipped["path"], TRAINING))
    if arguments.held_out:
        held_out = read_labelled(*find_files(ROOT / shipped["path"], HELD_OUT))
        _print_held_out(shipped, training_set, held_out, arguments)
        return
    lines = []
    for name, change in CANDIDATES.items():
        if arguments.only and arguments.only not in name:
            continue
        wrong = [
            _folds_wrong(_changed(shipped, change, seed), training_set, arguments.threads)
            for seed in range(arguments.seeds)
        ]
        right = _right(statistics.mean(wrong), training_set)
        lines.append([name, ", ".join(map(str, wrong)), right])
        print(name, wrong, flush=True)
    header = ["settings", f"wrong of {training_set.count:,}, {FOLDS} folds, by seed", "right"]
    print(markdown_table(header, lines))


def _shipped() -> dict[str, Any]:
    """Return the settings of config.yaml, with all defaults."""
    written = yaml.safe_load((ROOT / "config.yaml").read_text())
    settings = configuration.read_settings(written)
    return settings["classifiers"]["digits"]


def _changed(
    settings: Mapping[str, Any], change: Mapping[str, Mapping[str, Any]], seed: int
) -> dict[str, Any]:
    network = settings["network"] | change.get("network", {})
    training = settings["training"] | change.get("training", {}) | {"random_seed": seed}
    return {**settings, "network": network, "training": training}


def _folds_wrong(settings: Mapping[str, Any], training_set: LabelledImages, threads: int) -> int:
    """Count wrong answers over all folds; each fold is classified by a network of the others."""
    fold = np.arange(training_set.count) % FOLDS  # their order is random
    wrong = 0
    for number in range(FOLDS):
        model = _trained(settings, _part(training_set, fold != number), threads)
        wrong += _wrong(model, _part(training_set, fold == number))
    return wrong


def _print_held_out(
    settings: Mapping[str, Any],
    training_set: LabelledImages,
    held_out: LabelledImages,
    arguments: argparse.Namespace,
) -> None:
    lines = []
    for seed in range(arguments.seeds):
        start_s = time.perf_counter()
        model = _trained(_changed(settings, {}, seed), training_set, arguments.threads)
        seconds, wrong = time.perf_counter() - start_s, _wrong(model, held_out)
        first = [str(seed), str(_wrong(model, training_set)), str(wrong)]
        lines.append([*first, _right(wrong, held_out), f"{seconds:.1f}"])
        print(*lines[-1], flush=True)
    header = [
        "random seed",
        f"wrong of {training_set.count:,} for training",
        f"wrong of {held_out.count:,} held out",
        "right",
        "seconds",
    ]
    print(markdown_table(header, lines))


def _trained(
    settings: Mapping[str, Any], labelled: LabelledImages, threads: int
) -> ClassifierModel:
    task = ClassifierTask.from_settings(labelled, settings["network"], settings["training"])
    with threadpool_limits(1), TrainingSteps(task, HOST, "auto", threads) as steps:
        steps(task.training.steps)
        arrays = steps.arrays()
    return ClassifierModel(
        task.network, labelled.shape, labelled.classes, task.model.scaling, arrays
    )


def _wrong(model: ClassifierModel, labelled: LabelledImages) -> int:
    answers = model.probabilities(labelled.images).argmax(axis=1)
    return int((answers != labelled.labels).sum())


def _right(wrong: float, labelled: LabelledImages) -> str:
    return f"{100 - 100 * wrong / labelled.count:.2f}%"


def _part(labelled: LabelledImages, chosen: np.ndarray) -> LabelledImages:
    return LabelledImages(labelled.where, labelled.images[chosen], labelled.labels[chosen])


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(__doc__, "threads")
    add = parser.add_argument
    add("--held-out", action="store_true", help="measure the shipped settings on held-out digits")
    add("--seeds", type=int, default=1, help="number of random seeds, from 0")
    add("--only", default="", help="only candidates whose names contain this")
    return parser


if __name__ == "__main__":
    start(main, _parser())
