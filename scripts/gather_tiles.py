"""Combine the trainings of an image's tiles, as if one network had been trained on all of it."""

import math
import statistics
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from entry.image_network import ExpectedNetwork
from entry.job import run_job
from entry.records import read_record
from neuralfield.images.tiling import Tiling
from neuralfield.system.checkpoint import list_snapshots
from neuralfield.system.files import write_atomically, write_json
from neuralfield.system.provenance import require_recorded, sha256_of
from neuralfield.tasks.image.mosaic import save_mosaic
from neuralfield.training.history import History, read_history


def main(
    models: Sequence[Path],
    mosaic: Path,
    history: Path,
    record: Path,
    checkpoints: Path,
    *,
    expected: ExpectedNetwork,
    tiling: Tiling,
    threads: int = 1,
) -> None:
    """Write the mosaic of the finished models, one for each snapshot, and what was recorded.

    `models` are those of all tiles, row by row; history.csv, training.json and checkpoints lie
    beside each. `history` has at each step the sum of the seconds, and means over pixels of the
    errors. Networks of tiles other than the expected ones are refused.
    """
    with ThreadPoolExecutor(threads) as pool:
        records = list(pool.map(read_tile, models, map(expected.of_tile, tiling)))
    save_mosaic(mosaic, tiling, threads)
    for _, snapshot in list_snapshots(models[0].with_name("checkpoints")):
        save_mosaic(checkpoints / f"{snapshot.stem}.json", tiling, threads)
    weights = np.array([tile.width * tile.height for tile in tiling], float)
    histories = [path.with_name("history.csv") for path in models]
    tables = [read_history(path, steps=records[0]["steps"]) for path in histories]
    together = joint_history(tables, weights / weights.sum())
    rows = zip(*together.values(), strict=True)
    cells = [["" if math.isnan(value) else f"{value:.9g}" for value in row] for row in rows]
    lines = [",".join(line) for line in ([*together], *cells)]
    write_atomically(history, "".join(f"{line}\n" for line in lines).encode())
    written = joint_record(records)
    written["sha256"] = {path.name: sha256_of(path) for path in (mosaic, history)}
    write_json(record, written)


def read_tile(path: Path, expected: ExpectedNetwork) -> dict[str, Any]:
    """Check the files of a tile's training, and read its record."""
    network = expected.load(path)
    record_path, history = path.with_name("training.json"), path.with_name("history.csv")
    training = expected.with_steps_of(network).training
    record = read_record(record_path, path, training, network.parameter_count)
    require_recorded(history, record, record_path)
    return record


def joint_history(tables: Sequence[History], weights: np.ndarray) -> History:
    """Combine histories with the same steps into one; the weights add up to 1."""

    def all_of(column: str) -> np.ndarray:
        return np.stack([table[column] for table in tables])

    # where there is nearly nothing to estimate, an estimate of the error may be none
    errors = np.nan_to_num(10 ** (-all_of("psnr_db") / 10), nan=0.0)
    error = weights @ errors
    together = dict(tables[0])
    together["seconds"] = all_of("seconds").sum(axis=0)
    together["loss"] = weights @ all_of("loss")
    psnr_db = np.full(len(error), math.nan)
    np.log10(error, out=psnr_db, where=error > 0)
    together["psnr_db"] = -10 * psnr_db
    together["rollbacks"] = all_of("rollbacks").max(axis=0)
    return together


def joint_record(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Combine records into one: sums, the median step time, and the first rollback."""
    first = records[0]
    return {
        **first,
        "tiles": len(records),
        "train_seconds": round(sum(record["train_seconds"] for record in records), 3),
        "step_microseconds": statistics.median(record["step_microseconds"] for record in records),
        "parameters": sum(record["parameters"] for record in records),
        "final_loss": statistics.fmean(record["final_loss"] for record in records),
        "rollback": next((r["rollback"] for r in records if r["rollback"]), None),
        "notes": list(dict.fromkeys(note for record in records for note in record["notes"])),
    }


if __name__ == "__main__":
    run_job(
        main,
        lambda job: {
            "expected": ExpectedNetwork.of_job(job),
            "tiling": Tiling(**job.params.tiling),
        },
    )
