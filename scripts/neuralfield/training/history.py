"""Reading of training histories; separate from training, which few readers of histories import."""

from pathlib import Path

import numpy as np

from neuralfield.system.errors import InputError
from neuralfield.system.input_files import read_own_csv
from neuralfield.system.provenance import remedy_for

History = dict[str, np.ndarray]
"""The columns of a ``history.csv`` by name; float64, NaN where a cell is empty."""


def read_history(path: Path, measure: str = "psnr_db", *, steps: int | None = None) -> History:
    """Read ``history.csv``, in which each row describes the steps since the row before.

    The columns must include ``step`` and the `measure`. If `steps` is given, the last row must be
    that of step `steps`.
    """
    expected = "a history written by neuralfield"
    remedy = remedy_for(path)
    columns = read_own_csv(path, expected, remedy)
    try:
        history = {
            name: np.array([float(cell or "nan") for cell in cells])
            for name, cells in columns.items()
        }
        if not history["step"].size or not np.isfinite(history["step"]).all():
            raise ValueError("steps are missing")
        history[measure]
    except (ValueError, KeyError) as error:
        found = f"is damaged ({type(error).__name__}: {error})"
        raise InputError(str(path), found, expected, remedy) from error
    last_step = history["step"][-1]
    if steps is not None and last_step != steps:
        found, expected = f"ends with step {last_step:g}", f"step {steps}, the training's last"
        raise InputError(str(path), found, expected, remedy)
    return history


def nearest_measured(history: History, step: int) -> float:
    """Return the PSNR of the row nearest to a step among those with a PSNR; NaN if none has one."""
    measured = history["psnr_db"][kept := np.isfinite(history["psnr_db"])]
    if not len(measured):
        return float("nan")
    return float(measured[np.abs(history["step"][kept] - step).argmin()])
