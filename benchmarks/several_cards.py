"""How much sooner equal trainings are done with several cards: a sweep of seeds, by the workflow.

    python benchmarks/several_cards.py --cards 1 2

Each number of cards gets a folder of its own. Trainings alone are timed, with all that a job needs
to start; a short one before them has compiled the kernels.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml
from measuring import ROOT


def main() -> None:
    """Print a row for each number of cards."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cards", nargs="+", type=int, required=True)
    parser.add_argument("--trainings", type=int, default=16)
    parser.add_argument("--steps", type=int, default=40_000)
    parser.add_argument("--width", type=int, default=256, help="of three hidden layers of sines")
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu")
    arguments = parser.parse_args()
    print("| cards | trainings | seconds | times as fast | other bytes than with the first |")
    print("|---" * 5 + "|")
    with tempfile.TemporaryDirectory() as name:
        short = {"trainings": 1, "steps": 100}
        _teach(Path(name), 1, argparse.Namespace(**(vars(arguments) | short)))
    first_s, first_bytes = 0.0, {}
    for cards in arguments.cards:
        with tempfile.TemporaryDirectory() as name:
            seconds = _teach(Path(name), cards, arguments)
            found = {p.parent.name: p.read_bytes() for p in _models(Path(name), arguments)}
        first_s, first_bytes = first_s or seconds, first_bytes or found
        different = sum(first_bytes[seed] != found[seed] for seed in found)
        ratio = first_s / seconds
        print(f"| {cards} | {len(found)} | {seconds:.1f} | {ratio:.2f} | {different} |", flush=True)


def _teach(folder: Path, cards: int, arguments: argparse.Namespace) -> float:
    """Run the trainings with so many cards; the seconds that took."""
    (folder / "config.yaml").write_text(yaml.safe_dump(_config(arguments)))
    targets = [os.fspath(path.relative_to(folder)) for path in _models(folder, arguments)]
    _snakemake(
        folder, cards, [f"results/savannah/{file}" for file in ("pixels.csv", "picture.json")]
    )
    started_s = time.perf_counter()
    _snakemake(folder, cards, targets)
    return time.perf_counter() - started_s


def _snakemake(folder: Path, cards: int, targets: list[str]) -> None:
    command = [sys.executable, "-m", "snakemake", "--snakefile", os.fspath(ROOT / "Snakefile")]
    limits = ["--cores", "all", "--resources", f"gpu={cards}"]
    done = subprocess.run([*command, *limits, "--", *targets], cwd=folder, capture_output=True)
    if done.returncode:
        sys.exit((done.stdout + done.stderr).decode())


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


if __name__ == "__main__":
    main()
