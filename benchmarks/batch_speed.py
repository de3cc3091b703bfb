"""Seconds that a sweep of small networks takes, each in a job of its own and all in one.

    python benchmarks/batch_speed.py

trains 16 networks of siren 2x32 on a picture of 64x64, in turns with `batch: 1` and `batch: 16`,
and prints the table of docs/sweeps.md. What is timed is all of Snakemake, from its start to its
end, with the picture prepared before and no network measured after. Processor time is of all its
processes together: on a machine that others use too, it says more than the clock.

    python benchmarks/batch_speed.py --device gpu

times steps on a card instead, without Snakemake: see batch_steps.py.
"""

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import batch_steps
import numpy as np
import yaml
from measuring import ROOT
from PIL import Image

from neuralfield.system.errors import NeuralfieldError


def prepare(folder: Path, options: argparse.Namespace, batch: int) -> list[str]:
    """Write picture and config; returns the networks' files."""
    folder.mkdir()
    size = options.size
    x, y = np.meshgrid(np.linspace(0, 6, size), np.linspace(0, 6, size))
    waves = np.stack([np.sin(x + y), np.cos(x * y / 3), np.sin(x - 2 * y)], axis=2)
    Image.fromarray(np.uint8(127.5 * (1 + waves))).save(folder / "waves.png")
    seeds = list(range(options.networks))
    settings = {
        "images": {"waves": {"path": "waves.png", "fields": []}},
        "fields": {
            "siren": {"type": "siren", "width": options.width, "hidden_layers": options.layers}
        },
        "training": {"steps": options.steps, "device": "cpu", "supervision": "point"},
        "sweeps": {"seeds": {"fields": ["siren"], "vary": {"random_seed": seeds}, "batch": batch}},
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))
    snakemake(folder, options.cores, ["results/waves/pixels.csv"])
    return [f"results/waves/siren+random_seed={seed}/model.safetensors" for seed in seeds]


def snakemake(folder: Path, cores: int, targets: list[str]) -> tuple[float, float]:
    """Make files; the seconds that it took, by the clock and of all processors."""
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")]
    started_s, processors_s = time.perf_counter(), processor_time_s()
    with (folder / "snakemake.txt").open("w") as said:
        subprocess.run(
            [*command, "--cores", str(cores), *targets],
            cwd=folder,
            check=True,
            stdout=said,
            stderr=said,
        )
    return time.perf_counter() - started_s, processor_time_s() - processors_s


def processor_time_s() -> float:
    """Of all processes that have been started here, and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def forget(folder: Path) -> None:
    """Remove all networks, and what is written down of batches."""
    for path in folder.glob("results/waves/siren*"):
        shutil.rmtree(path)
    (folder / "results/batches.jsonl").unlink(missing_ok=True)


def main() -> None:
    """Measure jobs on a processor, or steps on a card."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--device", choices=("cpu", "gpu"), default="cpu")
    add("--networks", type=int, help="default: 16, on a card 64")
    add("--width", type=int, help="default: 32, on a card 64")
    add("--layers", type=int, default=2)
    add("--size", type=int, help="of the picture; default: 64, on a card 128")
    add("--steps", type=int, default=300, help="not on a card")
    add("--rounds", type=int, default=5, help="not on a card")
    add("--cores", type=int, default=len(os.sched_getaffinity(0)), help="not on a card")
    options = parser.parse_args()
    defaults = {"networks": (16, 64), "width": (32, 64), "size": (64, 128)}
    for name, (on_processor, on_card) in defaults.items():
        if getattr(options, name) is None:
            setattr(options, name, on_card if options.device == "gpu" else on_processor)
    if options.device == "gpu":
        sizes = options.networks, options.width, options.layers, options.size
        try:
            sys.exit(batch_steps.main(*sizes))
        except NeuralfieldError as error:
            sys.exit(str(error))
    measure_jobs(options)


def measure_jobs(options: argparse.Namespace) -> None:
    """Print a row for each round, and the medians."""
    with tempfile.TemporaryDirectory() as temporary:
        folders = {batch: Path(temporary, str(batch)) for batch in (1, options.networks)}
        targets = {batch: prepare(folder, options, batch) for batch, folder in folders.items()}
        many = options.networks
        print(f"| round | batch: 1 | batch: {many} | ratio | processors: 1 | {many} | ratio |")
        print("|---|---|---|---|---|---|---|")
        rounds = []
        for number in range(1, options.rounds + 1):
            measured = []
            for batch, folder in folders.items():
                forget(folder)
                measured.append(snakemake(folder, options.cores, targets[batch]))
            (alone_s, alone_cpu_s), (batch_s, batch_cpu_s) = measured
            ratios = (alone_s / batch_s, alone_cpu_s / batch_cpu_s)
            rounds.append((alone_s, batch_s, ratios[0], alone_cpu_s, batch_cpu_s, ratios[1]))
            print_row(str(number), rounds[-1])
        print_row("median", [statistics.median(column) for column in zip(*rounds, strict=True)])


def print_row(name: str, numbers: Sequence[float]) -> None:
    """A row of the table: seconds, and ratios of them."""
    print(f"| {name} | {' | '.join(f'{number:.1f}' for number in numbers)} |", flush=True)


if __name__ == "__main__":
    main()
