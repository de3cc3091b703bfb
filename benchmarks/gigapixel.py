"""Measures the workflow on a very large image, from its file to networks and to a pyramid.

    python benchmarks/gigapixel.py --megapixels 4 1200

makes each image (terrain, line art and text; see `measuring.gigapixel_image`), runs the workflow on
it in a folder of its own, and prints the time of each part, the quality of the networks, and the
total memory of all processes. The sides are chosen so that all tiles have the same size. The
workflow first runs on a small image to fill the caches of compiled kernels.

Several jobs share the GPU: while one job takes steps, others read, prepare and publish.
"""

import argparse
import csv
import json
import math
import shutil
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from measuring.command_line import new_parser, start
from measuring.gigapixel_image import SQUARE_PX, square, write_gigapixel
from measuring.measure import print_header, print_row
from measuring.process_tree import PeakMemory
from measuring.workflow_runs import run_workflow, write_config
from PIL import Image

from neuralfield.images.metrics import psnr_db
from neuralfield.images.tiling import Tiling
from neuralfield.system.device import available_cores

PHASES = {
    "networks": "results/image/network/mosaic.json",
    "pyramid": "results/image/network/pyramid",
    "metrics": "results/image/network/metrics.json",
}
"""The files of each phase, in order; phases are timed separately."""

_SQUARES_LOOKED_AT = 24


def measure(megapixels: float, options: argparse.Namespace) -> None:
    """Make an image of about this size, run the workflow on it, and print the measurements."""
    own_px = options.tile - options.overlap
    across = max(1, round((math.sqrt(1e6 * megapixels) - options.overlap) / own_px))
    side_px = across * own_px + options.overlap
    folder = options.folder / f"{side_px}_px"
    _forget_results(folder)
    print(f"\n{side_px} x {side_px} px, {side_px**2 / 1e6:.1f} megapixels", flush=True)
    tiling = Tiling(side_px, side_px, options.tile, options.overlap)
    _make_image(folder / "image.tif", side_px, options.cores)
    write_config(folder, _settings(tiling, options))
    print_header("phase", "seconds", "memory, GiB", "largest process, GiB")
    for phase in options.phases:
        _run(phase, folder, options)
    _print_rules(folder)
    _print_results(folder, side_px)


def _settings(tiling: Tiling, options: argparse.Namespace) -> dict[str, Any]:
    """Return the config of a run."""
    training = {
        "steps": options.steps,
        "batch_pixels": options.batch,
        "learning_rate": options.learning_rate,
        "supervision": "point",
        "detail_share": 0.0,
        "snapshots": 2,
        "device": options.device,
    }
    tiles = {"size": tiling.tile_px, "overlap": tiling.overlap_px}
    tiles["per_job"] = -(-tiling.count // options.jobs)
    network = {
        "type": "hashgrid",
        "levels": options.levels,
        "features": options.features,
        "log2_table_size": options.log2_table_size,
        "base_resolution": options.base_resolution,
        "hidden_layers": options.hidden_layers,
        "width": options.width,
    }
    return {
        "images": {"image": {"path": "image.tif", "tiles": tiles}},
        "fields": {"network": network},
        "training": training,
        "render": {"sizes": [1024]},
        "timelapse": {"frames": 2},
        "gpu_share": -(-options.jobs // options.gpus),
    }


def _forget_results(folder: Path) -> None:
    """Remove the files of an earlier run, except the image."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("results", "logs", ".snakemake"):
        shutil.rmtree(folder / name, ignore_errors=True)


def _make_image(path: Path, side_px: int, cores: int) -> None:
    if not path.exists():
        started_s = time.perf_counter()
        write_gigapixel(path, side_px, cores)
        print(f"image made in {time.perf_counter() - started_s:.1f} s", flush=True)


def _run(phase: str, folder: Path, options: argparse.Namespace) -> None:
    threads = [f"{rule}={options.cores}" for rule in ("pyramid", "evaluate_tiles")]
    with PeakMemory() as memory:
        seconds = run_workflow(
            folder,
            *("--cores", str(options.cores), "--resources", f"gpu={options.jobs}"),
            *("--set-threads", *threads, "--", PHASES[phase]),
        )
    largest = memory.largest[0] if memory.largest else (0, "")
    cells = (f"{bytes / 2**30:.2f}" for bytes in (memory.bytes, largest[0]))
    print_row(phase, f"{seconds:.1f}", *cells)


def _print_rules(folder: Path) -> None:
    """Print Snakemake's own measurements of the time and memory of each rule's jobs."""
    print()
    print_header("rule", "jobs", "longest, s", "CPU of all, s", "memory of one, MB")
    csv.field_size_limit(1 << 24)  # for the params, which list all tiles
    found: defaultdict[str, list[dict[str, str]]] = defaultdict(list)
    for path in sorted((folder / "logs").rglob("*.benchmark.tsv"), key=lambda p: p.stat().st_mtime):
        rule = path.name.split(".")[0].rstrip("0123456789_")
        with path.open() as file:
            found[rule] += csv.DictReader(file, delimiter="\t")
    for rule, jobs in found.items():
        seconds, cpu_s, memory_mb = (
            [float(job[name]) for job in jobs if job[name] not in ("-", "NA")]
            for name in ("s", "cpu_time", "max_rss")
        )
        cells = (max(seconds, default=0), sum(cpu_s), max(memory_mb, default=0))
        print_row(rule, len(jobs), *(f"{value:.1f}" for value in cells))


def _print_results(folder: Path, side_px: int) -> None:
    """Print the quality of the networks, the difficulty of the image, and the sizes of files."""
    print()
    print_header("what", "value")
    metrics = folder / "results/image/network/metrics.json"
    if metrics.exists():
        numbers = json.loads(metrics.read_text())
        print_row("fit, dB", f"{numbers['psnr_db']:.2f}")
        print_row("at seams, dB", f"{numbers['seam_psnr_db']:.2f}")
        print_row("SSIM", f"{numbers['ssim']:.4f}")
        print_row("parameters", f"{numbers['parameters']:,}")
        print_row("bits a pixel", f"{32 * numbers['parameters'] / side_px**2:.2f}")
    print_row(
        f"halved and enlarged, {_SQUARES_LOOKED_AT} squares, dB", f"{_halved_db(side_px):.2f}"
    )
    results = folder / "results/image"
    files = {
        "image, MB": folder / "image.tif",
        "pixels, MB": results / "pixels.npy",
        "networks, MB": results / "network/tiles",
        "pyramid, MB": results / "network/pyramid",
    }
    for name, path in files.items():
        print_row(name, f"{_stored_bytes(path) / 1e6:.0f}")


def _stored_bytes(path: Path) -> int:
    """Count the bytes of a file, or of all models or images in a folder."""
    if path.name == "tiles":
        return sum(file.stat().st_size for file in path.glob("*/model.safetensors"))
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def _halved_db(side_px: int) -> float:
    """Measure the PSNR of some squares that are halved and enlarged again by a Lanczos filter."""
    squares = max(1, side_px // SQUARE_PX)
    errors = []
    for place in np.random.default_rng(0).integers(0, squares, (_SQUARES_LOOKED_AT, 2)):
        image = Image.fromarray(square(*place.tolist()))
        halved = image.resize((SQUARE_PX // 2, SQUARE_PX // 2), Image.Resampling.LANCZOS)
        seen = halved.resize(image.size, Image.Resampling.LANCZOS)
        db = psnr_db(*(np.asarray(one, np.float32) / 255 for one in (image, seen)))
        errors.append(10 ** (-db / 10))
    return -10 * math.log10(sum(errors) / len(errors))


def main(options: argparse.Namespace) -> None:
    """Measure each size."""
    for megapixels in options.megapixels:
        measure(megapixels, options)


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(__doc__, "device")
    add = parser.add_argument
    add("--megapixels", type=float, nargs="+", default=[4, 1200], help="sizes of the images")
    add("--folder", type=Path, default=Path("gigapixel"), help="folder for all files")
    add("--phases", nargs="+", choices=PHASES, default=list(PHASES), help="phases to run")
    add("--cores", type=int, default=available_cores(), help="Snakemake's cores")
    add("--jobs", type=int, default=4, help="jobs that train tiles, all at the same time")
    add("--gpus", type=int, default=1, help="GPUs that these jobs are shared by")
    add("--tile", type=int, default=1024, help="side of a tile in pixels")
    add("--overlap", type=int, default=32, help="pixels that neighbouring tiles share")
    add("--steps", type=int, default=500, help="steps of each tile")
    add("--batch", type=int, default=32_768, help="pixels of each step")
    add("--learning-rate", type=float, default=0.02, help="learning rate of the first step")
    add("--levels", type=int, default=12, help="grids of a network")
    add("--features", type=int, default=2, help="numbers at each corner of a grid")
    add("--log2-table-size", type=int, default=16, help="binary logarithm of a grid's corners")
    add("--base-resolution", type=int, default=32, help="cells of the coarsest grid")
    add("--hidden-layers", type=int, default=2, help="layers after the grids")
    add("--width", type=int, default=64, help="width of these layers")
    return parser


if __name__ == "__main__":
    start(main, _parser())
