"""Times a sweep of small networks, with each in a job of its own and with all in one job.

    python benchmarks/batch_speed.py

trains 16 networks of siren 2x32 on an image of 64x64, in turns with `batch: 1` and `batch: 16`,
and prints the table of docs/sweeps.md. The time is that of the whole Snakemake process, from start
to end; the image is prepared before, and networks are not evaluated. The processor time of all its
processes is more reliable than the wall-clock time on a machine with other load.

    python benchmarks/batch_speed.py --device gpu

times steps on a GPU instead, without Snakemake: see batch_steps.py.
"""

import argparse
import resource
import shutil
import statistics
import tempfile
from pathlib import Path

import batch_steps
import numpy as np
from measuring.command_line import new_parser, start
from measuring.measure import print_header, print_row
from measuring.workflow_runs import run_workflow, write_config
from PIL import Image

from neuralfield.system.device import available_cores


def prepare(folder: Path, options: argparse.Namespace, batch: int) -> list[str]:
    """Write image and config, prepare the image, and return the networks' files."""
    folder.mkdir()
    size = options.size
    x, y = np.meshgrid(np.linspace(0, 6, size), np.linspace(0, 6, size))
    sines = np.stack([np.sin(x + y), np.cos(x * y / 3), np.sin(x - 2 * y)], axis=2)
    Image.fromarray(np.uint8(127.5 * (1 + sines))).save(folder / "sines.png")
    seeds = list(range(options.networks))
    settings = {
        "images": {"sines": {"path": "sines.png", "fields": []}},
        "fields": {
            "siren": {"type": "siren", "width": options.width, "hidden_layers": options.layers}
        },
        "training": {"steps": options.steps, "device": "cpu", "supervision": "point"},
        "sweeps": {"seeds": {"fields": ["siren"], "vary": {"random_seed": seeds}, "batch": batch}},
    }
    write_config(folder, settings)
    run_workflow(folder, "--cores", str(options.cores), "results/sines/pixels.csv")
    return [f"results/sines/siren+random_seed={seed}/model.safetensors" for seed in seeds]


def timed_run(folder: Path, cores: int, targets: list[str]) -> tuple[float, float]:
    """Make files, and return the wall-clock seconds and the processor seconds that this took."""
    before_s = processor_time_s()
    clock_s = run_workflow(folder, "--cores", str(cores), *targets)
    return clock_s, processor_time_s() - before_s


def processor_time_s() -> float:
    """Return the processor time of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def forget(folder: Path) -> None:
    """Remove all networks, and the ledger of batches."""
    for path in folder.glob("results/sines/siren*"):
        shutil.rmtree(path)
    (folder / "results/batches.jsonl").unlink(missing_ok=True)


def main(options: argparse.Namespace) -> int:
    """Measure jobs on a CPU, or steps on a GPU; return 1 if the bytes of steps differ."""
    defaults = {"networks": (16, 64), "width": (32, 64), "size": (64, 128)}
    for name, (on_cpu, on_gpu) in defaults.items():
        if getattr(options, name) is None:
            setattr(options, name, on_gpu if options.device == "gpu" else on_cpu)
    if options.device == "gpu":
        return batch_steps.main(options.networks, options.width, options.layers, options.size)
    measure_jobs(options)
    return 0


def measure_jobs(options: argparse.Namespace) -> None:
    """Print a row for each round, and the medians."""
    with tempfile.TemporaryDirectory() as temporary:
        folders = {batch: Path(temporary, str(batch)) for batch in (1, options.networks)}
        targets = {batch: prepare(folder, options, batch) for batch, folder in folders.items()}
        many = options.networks
        names = ("batch: 1", f"batch: {many}", "ratio", "processors: 1", f"{many}", "ratio")
        print_header("round", *names)
        rounds = []
        for number in range(1, options.rounds + 1):
            measured = []
            for batch, folder in folders.items():
                forget(folder)
                measured.append(timed_run(folder, options.cores, targets[batch]))
            (alone_s, alone_cpu_s), (batch_s, batch_cpu_s) = measured
            ratios = (alone_s / batch_s, alone_cpu_s / batch_cpu_s)
            rounds.append((alone_s, batch_s, ratios[0], alone_cpu_s, batch_cpu_s, ratios[1]))
            print_row(number, *(f"{seconds:.1f}" for seconds in rounds[-1]))
        medians = [statistics.median(column) for column in zip(*rounds, strict=True)]
        print_row("median", *(f"{seconds:.1f}" for seconds in medians))


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(__doc__)
    add = parser.add_argument
    add("--device", choices=("cpu", "gpu"), default="cpu", help="device to measure")
    add("--networks", type=int, help="number of networks (default: 16, or 64 on a GPU)")
    add("--width", type=int, help="width of a network (default: 32, or 64 on a GPU)")
    add("--layers", type=int, default=2, help="hidden layers of a network")
    add("--size", type=int, help="side of the image in pixels (default: 64, or 128 on a GPU)")
    add("--steps", type=int, default=300, help="steps of a training; ignored on a GPU")
    add("--rounds", type=int, default=5, help="runs of each kind; ignored on a GPU")
    add("--cores", type=int, default=available_cores(), help="Snakemake's cores; ignored on a GPU")
    return parser


if __name__ == "__main__":
    start(main, _parser())
