"""Measures time, memory and quality over the size of an image that is trained in tiles.

    python benchmarks/tile_scaling.py --megapixels 1 10 100

makes each image and trains on it in a folder of its own, and prints the table of
docs/large_images.md.
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from measuring.command_line import new_parser, start
from measuring.measure import print_header, print_row
from measuring.workflow_runs import run_apart, write_config

from neuralfield.images import PngBandWriter
from neuralfield.system.device import available_cores

SCALES_PX = (192, 48, 12)
"""Sides of the noise's cells in pixels; each octave has half the amplitude of the previous one."""

RULES = (
    *("unpack", "overview", "tiles_*", "gather_tiles"),
    *("evaluate_tiles", "pyramid", "render", "timelapse"),
)


def render_image(path: Path, side_px: int, band_px: int = 64) -> None:
    """Write a square image of coloured clouds in bands of rows, the same in each run."""
    x = np.arange(side_px)
    with PngBandWriter(path, side_px, side_px, 3, 8) as png:
        for top in range(0, side_px, band_px):
            y = np.arange(top, min(top + band_px, side_px))
            channels = [_clouds(x, y, seed) for seed in range(3)]
            png.write_rows(np.stack(channels, axis=2).astype(np.uint8))


def _clouds(x: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    """Return values from 0 to 255, shape (rows, columns)."""
    total = np.zeros((len(y), len(x)))
    for octave, side_px in enumerate(SCALES_PX):
        columns, across = _cell(x, side_px)
        rows, down = _cell(y, side_px)
        corners = _noise(np.arange(columns[-1] + 2), np.arange(rows[0], rows[-1] + 2), seed, octave)
        rows = rows - rows[0]
        over = corners[:, columns] * (1 - across) + corners[:, columns + 1] * across
        total += (over[rows] * (1 - down[:, None]) + over[rows + 1] * down[:, None]) / 2**octave
    return 255 * total / sum(0.5**octave for octave in range(len(SCALES_PX)))


def _cell(positions: np.ndarray, side_px: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the cell of each position, and the smoothed fraction of the way through the cell."""
    cell, inside = np.divmod(positions, side_px)
    share = (inside + 0.5) / side_px
    return cell, share * share * (3 - 2 * share)


def _noise(columns: np.ndarray, rows: np.ndarray, seed: int, octave: int) -> np.ndarray:
    """Return a number from 0 to 1 for each corner of the cells, determined by its place alone."""
    mixed = columns * 73856093 ^ rows[:, None] * 19349663 ^ (seed * 8 + octave + 1) * 83492791
    for _ in range(2):
        mixed = (mixed ^ (mixed >> 15)) * 0x2C1B3C6D & 0xFFFFFFFF
    return (mixed ^ (mixed >> 16)) / 2**32


def measure(megapixels: float, options: argparse.Namespace) -> dict[str, str]:
    """Train on an image of this size, and return the cells of a row."""
    side_px = round(math.sqrt(1e6 * megapixels))
    folder = options.folder / f"{megapixels:g}_megapixels"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "clouds.png").exists():
        render_image(folder / "clouds.png", side_px)
    tiles = {"size": options.tile, "overlap": options.overlap}
    settings = {
        "images": {"clouds": {"path": "clouds.png", "tiles": tiles}},
        "fields": {"network": _field(options)},
        "training": {
            "steps": options.steps,
            "supervision": "point",
            "snapshots": 8,
            "device": options.device,
            "threads": 1,
        },
        "render": {"sizes": [1024]},
        "timelapse": {"frames": 8},
    }
    write_config(folder, settings)
    seconds, alone_s = run_apart(folder, "--cores", str(options.cores))
    again_s, _ = run_apart(folder, "--cores", str(options.cores))
    numbers = json.loads((folder / "results/clouds/network/metrics.json").read_text())
    row = {
        "megapixels": f"{side_px**2 / 1e6:.1f}",
        "tiles": str(numbers["tiles"]),
        "minutes": f"{seconds / 60:.1f}",
        "without a job, s": f"{alone_s:.1f}",
        "nothing to do, s": f"{again_s:.1f}",
        "CPU s": f"{_benchmarks(folder, '*')['cpu_time'].sum():.0f}",
        "dB": f"{numbers['psnr_db']:.2f}",
        "dB at seams": f"{numbers['seam_psnr_db']:.2f}",
    }
    peaks_mb = {rule: _benchmarks(folder, rule)["max_rss"].max() for rule in RULES}
    return row | {f"{rule}, MB": f"{peak_mb:.0f}" for rule, peak_mb in peaks_mb.items()}


def _field(options: argparse.Namespace) -> dict[str, Any]:
    if options.field == "siren":
        return {"type": "siren", "width": options.width, "hidden_layers": 2}
    return {"type": "hashgrid", "width": options.width}


def _benchmarks(folder: Path, rule: str) -> pd.DataFrame:
    """Return Snakemake's measurements of all jobs of a rule."""
    tables = (folder / "logs").rglob(f"{rule}.benchmark.tsv")
    return pd.concat([pd.read_csv(path, sep="\t", na_values="-") for path in tables])


def main(options: argparse.Namespace) -> None:
    """Print a row of the table for each size."""
    for number, megapixels in enumerate(options.megapixels):
        row = measure(megapixels, options)
        if not number:
            print_header(*row)
        print_row(*row.values())


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(__doc__, "device")
    parser.set_defaults(device="cpu")
    add = parser.add_argument
    add("--megapixels", type=float, nargs="+", default=[1, 10, 100], help="sizes of the images")
    add("--folder", type=Path, default=Path("large_images"), help="folder for all files")
    add("--tile", type=int, default=960, help="side of a tile in pixels")
    add("--overlap", type=int, default=32, help="pixels that neighbouring tiles share")
    add("--field", choices=("siren", "hashgrid"), default="siren", help="kind of the networks")
    add("--width", type=int, default=32, help="width of the networks")
    add("--steps", type=int, default=200, help="steps of each tile")
    add("--cores", type=int, default=available_cores(), help="Snakemake's cores")
    return parser


if __name__ == "__main__":
    start(main, _parser())
