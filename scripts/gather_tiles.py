"""Combine the trainings of an image's tiles into the files of one training on the whole image."""

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from entry.job import run_job
from entry.records import TRAINING_KEYS
from neuralfield.images.tiling import Tiling
from neuralfield.system.files import write_csv, write_json
from neuralfield.system.input_files import read_json
from neuralfield.system.ledger import Files, read_ledger
from neuralfield.system.provenance import require_recorded, sha256_of
from neuralfield.tasks.image.mosaic import save_mosaic
from neuralfield.training.history import History, read_history
from neuralfield.training.joint import joint_history, joint_record


def main(
    tiles: Sequence[Path],
    mosaic: Path,
    history: Path,
    record: Path,
    checkpoints: Path,
    *,
    tiling: Mapping[str, int],
    threads: int = 1,
) -> None:
    """Write the mosaic of the finished models, a mosaic per snapshot, the history and the record.

    `tiles` are the file lists of all tiles, row by row, in the parent of the tiles' folders; see
    `ledger`. No model is read, because the lists have the checksums of all models. `history` has at
    each step the sum of the seconds and the means of the errors over all pixels.
    """
    whole = Tiling(**tiling)
    listed = [(path, read_ledger(path)) for path in tiles]
    files = {tile: (path, entry.files) for path, made in listed for tile, entry in made.items()}
    first, folder = whole.tile(0, 0), tiles[0].parent
    with ThreadPoolExecutor(threads) as pool:
        read = [pool.submit(read_training, folder / t.name, *files[t.name]) for t in whole]
        records, tables = zip(*(training.result() for training in read), strict=True)
    snapshots = [name for name in files[first.name][1] if name.startswith("checkpoints/")]
    for name in ("model.safetensors", *snapshots):
        path = checkpoints / f"{Path(name).stem}.json" if name in snapshots else mosaic
        save_mosaic(path, whole, {tile.name: files[tile.name][1][name] for tile in whole})
    weights = np.array([tile.width * tile.height for tile in whole], float)
    together = joint_history(tables, weights / weights.sum())
    rows = zip(*together.values(), strict=True)
    cells = [["" if math.isnan(value) else f"{value:.9g}" for value in row] for row in rows]
    write_csv(history, together, cells)
    written = joint_record(records)
    written["sha256"] = {path.name: sha256_of(path) for path in (mosaic, history)}
    write_json(record, written)


def read_training(folder: Path, list_path: Path, files: Files) -> tuple[dict[str, Any], History]:
    """Read the record and the history of a tile's training, and check them against the list."""
    record, history = folder / "training.json", folder / "history.csv"
    read = read_json(record, TRAINING_KEYS), read_history(history)
    for path in (record, history):
        require_recorded(path, {"sha256": files}, list_path, wrong=path)
    return read


if __name__ == "__main__":
    run_job(main)
