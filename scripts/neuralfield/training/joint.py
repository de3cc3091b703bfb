"""The history and the record of several trainings as those of one training."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from neuralfield.training.history import History


def joint_history(tables: Sequence[History], weights: np.ndarray) -> History:
    """Combine histories with the same steps into one; the weights add up to 1."""

    def all_of(column: str) -> np.ndarray:
        return np.stack([table[column] for table in tables])

    # the PSNR may be NaN if the error is nearly 0: the error is then taken as 0
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
