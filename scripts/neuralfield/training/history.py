"""Reading the history of a training, apart from all that trains: few of its readers need that."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from neuralfield.system.errors import InputError
from neuralfield.system.input_files import read_own_csv
from neuralfield.system.provenance import remedy_for

if TYPE_CHECKING:
    import pandas as pd


def read_history(
    path: Path, measure: str = "psnr_db", *, steps: int | None = None
) -> "pd.DataFrame":
    """Read ``history.csv``: how a training went, one row for each stretch of it.

    The columns ``step`` and `measure` (see `neuralfield.tasks.task.Measure`) are there, as float64.
    The last row has to be of step `steps`, if that is given.
    """
    expected = "a history written by neuralfield"
    remedy = remedy_for(path)
    table = read_own_csv(path, expected, remedy)
    try:
        for name in {"step", measure, *({"seconds"} & {*table.columns})}:
            table[name] = table[name].astype(np.float64)
        if not len(table) or not np.isfinite(table["step"]).all():
            raise ValueError("steps are missing")
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        found = f"is damaged ({type(error).__name__}: {error})"
        raise InputError(str(path), found, expected, remedy) from error
    last_step = table["step"].iloc[-1]
    if steps is not None and last_step != steps:
        found, expected = f"ends with step {last_step:g}", f"step {steps}, the training's last"
        raise InputError(str(path), found, expected, remedy)
    return table
