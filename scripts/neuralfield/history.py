"""Reading ``history.csv``: how a training went, one row for each stretch of it."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from neuralfield.errors import InputError
from neuralfield.files import read_whole
from neuralfield.provenance import remedy_for

if TYPE_CHECKING:
    import pandas as pd

_LARGEST_BYTES = 64 << 20


def read_history(
    path: Path, measure: str = "psnr_db", *, steps: int | None = None
) -> "pd.DataFrame":
    """Read a history, with at least the columns ``step`` and of its measure, as numbers.

    Parameters
    ----------
    path : Path
    measure : str
        See `neuralfield.task.Measure`.
    steps : int, optional
        Those of the whole training: the last row has to be of this step.

    Raises
    ------
    InputError
        The file is missing, damaged, or of a training of other steps.
    """
    import io

    import pandas as pd

    try:
        table = pd.read_csv(io.BytesIO(read_whole(path, _LARGEST_BYTES)))
        for name in {"step", measure, *({"seconds"} & {*table.columns})}:
            table[name] = table[name].astype(np.float64)
        if not len(table) or not np.isfinite(table["step"]).all():
            raise ValueError("steps are missing")
    except (OSError, ValueError, KeyError, OverflowError) as error:
        found = f"is damaged ({type(error).__name__}: {error})"
        expected = "a history written by neuralfield"
        raise InputError(str(path), found, expected, remedy_for(path)) from error
    last_step = table["step"].iloc[-1]
    if steps is not None and last_step != steps:
        found, expected = f"ends with step {last_step:g}", f"step {steps}, the training's last"
        raise InputError(str(path), found, expected, remedy_for(path))
    return table
