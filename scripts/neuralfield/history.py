"""Reading ``history.csv``: how a training went, one row for each stretch of it."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from neuralfield.errors import InputError
from neuralfield.input_files import read_own_csv

if TYPE_CHECKING:
    import pandas as pd


def read_history(path: Path, measure: str = "psnr_db") -> "pd.DataFrame":
    """Read a history, with at least the columns ``step`` and of its measure, as numbers.

    Parameters
    ----------
    path : Path
    measure : str
        See `neuralfield.task.Measure`.

    Raises
    ------
    InputError
        The file is missing or damaged.
    """
    expected = "a history written by neuralfield"
    remedy = "remove it, and run the same command again: it is made anew"
    table = read_own_csv(path, expected, remedy)
    try:
        for name in {"step", measure, *({"seconds"} & {*table.columns})}:
            table[name] = table[name].astype(np.float64)
        if not len(table) or not np.isfinite(table["step"]).all():
            raise ValueError("steps are missing")
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        found = f"is damaged ({type(error).__name__}: {error})"
        raise InputError(str(path), found, expected, remedy) from error
    return table
