"""Times a sweep of seeds in the workflow, on one GPU and on several GPUs.

    python benchmarks/several_cards.py --cards 1 2

Each number of GPUs has a folder of its own. The time is that of the training jobs, including their
start; a short training before them compiles the kernels.
"""

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

from measuring import ROOT
from measuring.command_line import new_parser, start
from measuring.measure import print_header, print_row
from measuring.workflow_runs import run_workflow, write_config


def main(arguments: argparse.Namespace) -> None:
    """Print a row for each number of GPUs."""
    print_header("GPUs", "trainings", "seconds", "times as fast", "models with other bytes")
    with tempfile.TemporaryDirectory() as name:
        short = {"trainings": 1, "steps": 100}
        _train(Path(name), 1, argparse.Namespace(**(vars(arguments) | short)))
    first_s, first_bytes = 0.0, {}
    for gpus in arguments.cards:
        with tempfile.TemporaryDirectory() as name:
            seconds = _train(Path(name), gpus, arguments)
            found = {p.parent.name: p.read_bytes() for p in _models(Path(name), arguments)}
        first_s, first_bytes = first_s or seconds, first_bytes or found
        different = sum(first_bytes[seed] != found[seed] for seed in found)
        ratio = first_s / seconds
        print_row(gpus, len(found), f"{seconds:.1f}", f"{ratio:.2f}", different)


def _train(folder: Path, gpus: int, arguments: argparse.Namespace) -> float:
    """Run the trainings on a number of GPUs, and return the seconds that this took."""
    write_config(folder, _config(arguments))
    options = ("--cores", "all", "--resources", f"gpu={gpus}", "--")
    run_workflow(folder, *options, "results/savannah/pixels.csv", "results/savannah/picture.json")
    models = [os.fspath(path.relative_to(folder)) for path in _models(folder, arguments)]
    return run_workflow(folder, *options, *models)


def _models(folder: Path, arguments: argparse.Namespace) -> list[Path]:
    seeds = range(arguments.trainings)
    return [
        folder / f"results/savannah/siren+random_seed={seed}/model.safetensors" for seed in seeds
    ]


def _config(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "images": {"savannah": {"path": os.fspath(ROOT / "workflow/resources/savannah.png")}},
        "fields": {"siren": {"type": "siren", "width": arguments.width}},
        "sweeps": {
            "seeds": {
                "fields": ["siren"],
                "vary": {"random_seed": list(range(arguments.trainings))},
            }
        },
        "training": {
            "device": arguments.device,
            "supervision": "point",
            "batch_pixels": 0,
            "detail_share": 0,
            "steps": arguments.steps,
            "threads": 1,
            "snapshots": 2,
        },
    }


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(__doc__)
    add = parser.add_argument
    add("--cards", nargs="+", type=int, required=True, help="numbers of GPUs to compare")
    add("--trainings", type=int, default=16, help="number of random seeds")
    add("--steps", type=int, default=40_000, help="steps of each training")
    add("--width", type=int, default=256, help="width of the three hidden layers of sines")
    add("--device", choices=("gpu", "cpu"), default="gpu", help="device to measure")
    return parser


if __name__ == "__main__":
    start(main, _parser())
