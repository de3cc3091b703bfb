"""How time, memory and quality go with the size of a picture that is taught in tiles.

    python benchmarks/tile_scaling.py --megapixels 1 10 100

makes each picture and teaches it in a folder of its own, and prints the table of
docs/large_pictures.md.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import yaml
from measuring import ROOT

from neuralfield.images import PngBandWriter

SCALES_PX = (192, 48, 12)
"""Sides of the cells of the noise, each half as strong as the one before."""

RULES = (
    *("unpack", "overview", "cut_tile", "train", "gather_tiles"),
    *("evaluate_tiles", "render_1024", "timelapse"),
)


def draw_picture(path: Path, side_px: int, band_px: int = 64) -> None:
    """Write a square picture of coloured clouds, the same in each run, in bands of rows."""
    x = np.arange(side_px)
    with PngBandWriter(path, side_px, side_px, 3, 8) as png:
        for top in range(0, side_px, band_px):
            y = np.arange(top, min(top + band_px, side_px))
            channels = [_clouds(x, y, seed) for seed in range(3)]
            png.write_rows(np.stack(channels, axis=2).astype(np.uint8))


def _clouds(x: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    """Values from 0 to 255, shape (rows, columns)."""
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
    """The cell of each position, and how far inside, without a jump in the slope at its edge."""
    cell, inside = np.divmod(positions, side_px)
    share = (inside + 0.5) / side_px
    return cell, share * share * (3 - 2 * share)


def _noise(columns: np.ndarray, rows: np.ndarray, seed: int, octave: int) -> np.ndarray:
    """A number from 0 to 1 for each corner of the cells, from its place alone."""
    mixed = columns * 73856093 ^ rows[:, None] * 19349663 ^ (seed * 8 + octave + 1) * 83492791
    for _ in range(2):
        mixed = (mixed ^ (mixed >> 15)) * 0x2C1B3C6D & 0xFFFFFFFF
    return (mixed ^ (mixed >> 16)) / 2**32


def measure(megapixels: float, options: argparse.Namespace) -> dict[str, str]:
    """Teach a picture of this size, and say what it took."""
    side_px = round(math.sqrt(1e6 * megapixels))
    folder = options.folder / f"{megapixels:g}_megapixels"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "clouds.png").exists():
        draw_picture(folder / "clouds.png", side_px)
    tiles = {"size": options.tile, "overlap": options.overlap}
    settings = {
        "images": {"clouds": {"path": "clouds.png", "tiles": tiles}},
        "fields": {"siren": {"type": "siren", "width": options.width, "hidden_layers": 2}},
        "training": {
            "steps": options.steps,
            "supervision": "point",
            "snapshots": 8,
            "device": options.device,
            "threads": 1,
        },
        "render": {"sizes": [1024]},
        "timelapse": {"frames": 8},
        "max_megapixels": 1000,
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))
    started_s = time.perf_counter()
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")]
    with (folder / "snakemake.txt").open("w") as said:
        subprocess.run(
            [*command, "--cores", str(options.cores)],
            cwd=folder,
            check=True,
            stdout=said,
            stderr=said,
        )
    minutes = (time.perf_counter() - started_s) / 60
    numbers = json.loads((folder / "results/clouds/siren/metrics.json").read_text())
    row = {
        "megapixels": f"{side_px**2 / 1e6:.1f}",
        "tiles": str(numbers["tiles"]),
        "minutes": f"{minutes:.1f}",
        "CPU s": f"{_benchmarks(folder, '*')['cpu_time'].sum():.0f}",
        "dB": f"{numbers['psnr_db']:.2f}",
        "dB at seams": f"{numbers['seam_psnr_db']:.2f}",
    }
    peaks_mb = {rule: _benchmarks(folder, rule)["max_rss"].max() for rule in RULES}
    return row | {f"{rule}, MB": f"{peak_mb:.0f}" for rule, peak_mb in peaks_mb.items()}


def _benchmarks(folder: Path, rule: str) -> pd.DataFrame:
    """What Snakemake measured of all jobs of a rule."""
    tables = (folder / "logs").rglob(f"{rule}.benchmark.tsv")
    return pd.concat([pd.read_csv(path, sep="\t", na_values="-") for path in tables])


def main() -> None:
    """Print one row of the table for each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megapixels", type=float, nargs="+", default=[1, 10, 100])
    parser.add_argument("--folder", type=Path, default=Path("large_pictures"))
    parser.add_argument("--tile", type=int, default=960)
    parser.add_argument("--overlap", type=int, default=32)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    for number, megapixels in enumerate(options.megapixels):
        row = measure(megapixels, options)
        if not number:
            print(f"| {' | '.join(row)} |")
            print("|" + "---|" * len(row))
        print(f"| {' | '.join(row.values())} |", flush=True)


if __name__ == "__main__":
    main()
