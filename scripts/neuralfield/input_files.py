"""Opening the files that users bring along, and reading tables out of them."""

import io
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from neuralfield.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

FETCH_AGAIN = "copy or download it again"


def open_input(path: str | os.PathLike, expected: str) -> BinaryIO:
    """Open a file that must be there and not be empty.

    Raises
    ------
    InputError
        There is no such file, it is a folder, empty, or may not be read.
    """
    where = str(path)
    try:
        if Path(path).is_dir():
            raise InputError(where, "is a folder", expected, "name a file in it")
        if not Path(path).stat().st_size:
            raise InputError(where, "is empty", expected, FETCH_AGAIN)
        return _BoundedFile(os.fspath(path))
    except FileNotFoundError as error:
        remedy = "check the spelling; a relative path starts from the working directory"
        raise InputError(where, "there is no such file", expected, remedy) from error
    except OSError as error:
        found = f"cannot be opened ({error.strerror})"
        raise InputError(where, found, expected, "check the path and its permissions") from error


class _BoundedFile(io.BufferedReader):
    """A file of which no more is asked than it holds.

    Decoders ask for as many bytes as the file says that a part of it has, and Python takes memory
    for all of them first.
    """

    def __init__(self, path: str) -> None:
        super().__init__(io.FileIO(path, "rb"))
        self._size = os.fstat(self.fileno()).st_size

    def read(self, size: int | None = -1, /) -> bytes:
        left = max(0, self._size - self.tell())
        return super().read(left if size is None or size < 0 else min(size, left))


def read_csv(where: str, file: BinaryIO, expected: str, remedy: str, **options: Any) -> Any:
    """Read a CSV; a cell that is not of its `dtype` is left to the caller.

    Parameters
    ----------
    where : str
        The file's name, for messages.
    file : file
        Read from its beginning.
    expected, remedy : str
        For messages: what the file should be, and what to do about one that is not.
    **options
        Of `pandas.read_csv`.

    Returns
    -------
    pandas.DataFrame
        Or what else `pandas.read_csv` gives with these options.

    Raises
    ------
    InputError
        It is no table: not text, or with lines of different lengths.
    """
    import pandas as pd

    file.seek(0)
    options |= {"index_col": False, "skipinitialspace": True, "encoding": "utf-8-sig"}
    with _table_errors(where, expected, remedy):
        return pd.read_csv(file, engine="c", **options)


def read_csv_in_parts(
    where: str, file: BinaryIO, expected: str, remedy: str, *, rows: int, **options: Any
) -> Iterator["pd.DataFrame"]:
    """As `read_csv`, but some rows after the others; memory follows their number."""
    parts = read_csv(where, file, expected, remedy, chunksize=rows, **options)
    while True:
        with _table_errors(where, expected, remedy):
            part = next(parts, None)
        if part is None:
            return
        yield part


@contextmanager
def _table_errors(where: str, expected: str, remedy: str) -> Iterator[None]:
    import pandas as pd

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a cell out of range is reported by its line
            warnings.simplefilter("error", pd.errors.ParserWarning)
            yield
    except pd.errors.ParserWarning as error:
        found = "has lines with more values than the first line has names"
        raise InputError(where, found, expected, remedy) from error
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        found = f"is not a table ({str(error).strip()})"
        raise InputError(where, found, expected, remedy) from error


def wrong_cell(
    where: str, name: str, wrong: np.ndarray, cells: np.ndarray, expected: str, first_line: int = 2
) -> InputError:
    """The error that names the first wrong cell of a column.

    Parameters
    ----------
    where, name : str
        The file and the column.
    wrong : ndarray of bool, shape (n,)
        At least one of them is.
    cells : ndarray, shape (n,)
        What stands there.
    expected : str
    first_line : int
        Line of the first cell; the names are in line 1.
    """
    row = int(np.argmax(wrong))
    cell = str(cells[row]).removesuffix(".0")[:40] or "empty"
    found = f"{name} in line {row + first_line} is {cell}"
    others = f"; {np.count_nonzero(wrong) - 1:,} more like it" if wrong.sum() > 1 else ""
    return InputError(where, found + others, expected, "mend the table")
