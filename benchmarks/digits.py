"""How well settings learn the digits that are shipped: by cross-validation, and at last held out.

python benchmarks/digits.py                       # choose, without a look at what is held out
python benchmarks/digits.py --held-out --seeds 5  # what was chosen, over several random seeds
"""

import argparse
import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from measuring import ROOT
from measuring.measure import markdown_table
from measuring.ours import TrainingSteps
from threadpoolctl import threadpool_limits

from config import configuration
from neuralfield.system.device import HOST, available_cores, keep_freed_memory
from neuralfield.tasks.classifier.classifier_model import ClassifierModel
from neuralfield.tasks.classifier.classifier_task import ClassifierTask
from neuralfield.tasks.classifier.labelled import (
    HELD_OUT,
    TAUGHT,
    LabelledPictures,
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
"""Changes of the shipped settings."""


def main(arguments: argparse.Namespace) -> None:
    """Print a table."""
    keep_freed_memory()
    shipped = _shipped()
    taught = read_labelled(*find_files(Path(shipped["path"]), TAUGHT))
    if arguments.held_out:
        held_out = read_labelled(*find_files(Path(shipped["path"]), HELD_OUT))
        _print_held_out(shipped, taught, held_out, arguments)
        return
    lines = []
    for name, change in CANDIDATES.items():
        if arguments.only and arguments.only not in name:
            continue
        wrong = [
            _folds_wrong(_changed(shipped, change, s), taught, arguments) for s in _seeds(arguments)
        ]
        mean = statistics.mean(wrong)
        lines.append([name, ", ".join(map(str, wrong)), f"{100 - 100 * mean / taught.count:.2f}%"])
        print(name, wrong, flush=True)
    header = ["settings", f"wrong of {taught.count:,}, {FOLDS} folds, by seed", "right"]
    print(markdown_table(header, lines))


def _shipped() -> dict[str, Any]:
    """The settings of config.yaml, nothing left to defaults."""
    written = yaml.safe_load((ROOT / "config.yaml").read_text())
    settings = configuration.read_settings(written, lambda place: "config.yaml")
    return settings["classifiers"]["digits"]


def _changed(
    settings: Mapping[str, Any], change: Mapping[str, Mapping[str, Any]], seed: int
) -> dict[str, Any]:
    network = settings["network"] | change.get("network", {})
    training = settings["training"] | change.get("training", {}) | {"random_seed": seed}
    return {**settings, "network": network, "training": training}


def _seeds(arguments: argparse.Namespace) -> range:
    return range(arguments.seeds)


def _folds_wrong(
    settings: Mapping[str, Any], taught: LabelledPictures, arguments: argparse.Namespace
) -> int:
    """Of all pictures that are taught, each asked of a network that was taught the other folds."""
    fold = np.arange(taught.count) % FOLDS  # their order is random
    wrong = 0
    for number in range(FOLDS):
        model = _learned(settings, _part(taught, fold != number), arguments.threads)
        wrong += _wrong(model, _part(taught, fold == number))
    return wrong


def _print_held_out(
    settings: Mapping[str, Any],
    taught: LabelledPictures,
    held_out: LabelledPictures,
    arguments: argparse.Namespace,
) -> None:
    lines = []
    for seed in _seeds(arguments):
        start_s = time.perf_counter()
        model = _learned(_changed(settings, {}, seed), taught, arguments.threads)
        seconds, wrong = time.perf_counter() - start_s, _wrong(model, held_out)
        right = f"{100 - 100 * wrong / held_out.count:.2f}%"
        lines.append([str(seed), str(_wrong(model, taught)), str(wrong), right, f"{seconds:.1f}"])
        print(*lines[-1], flush=True)
    header = [
        "random seed",
        f"wrong of {taught.count:,} taught",
        f"wrong of {held_out.count:,} held out",
        "right",
        "seconds",
    ]
    print(markdown_table(header, lines))


def _learned(
    settings: Mapping[str, Any], labelled: LabelledPictures, threads: int
) -> ClassifierModel:
    task = ClassifierTask.from_settings(labelled, settings["network"], settings["training"])
    with threadpool_limits(1), TrainingSteps(task, HOST, "auto", threads) as steps:
        steps(task.training.steps)
        arrays = steps.arrays()
    return ClassifierModel(
        task.network, labelled.shape, labelled.classes, task.model.scaling, arrays
    )


def _wrong(model: ClassifierModel, labelled: LabelledPictures) -> int:
    answers = model.probabilities(labelled.pictures).argmax(axis=1)
    return int((answers != labelled.labels).sum())


def _part(labelled: LabelledPictures, chosen: np.ndarray) -> LabelledPictures:
    return LabelledPictures(labelled.where, labelled.pictures[chosen], labelled.labels[chosen])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--held-out", action="store_true", help="what is shipped, and how it ends")
    parser.add_argument("--seeds", type=int, default=1, help="how many random seeds, from 0")
    parser.add_argument("--only", default="", help="candidates whose names contain this")
    parser.add_argument("--threads", type=int, default=available_cores())
    main(parser.parse_args())
