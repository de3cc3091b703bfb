"""Reading of files from users, and of tables and JSON files that rules write."""

import codecs
import csv
import io
import json
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from neuralfield.system.errors import InputError, MissingFileError
from neuralfield.system.files import read_whole
from neuralfield.system.provenance import remedy_for

if TYPE_CHECKING:
    import pandas as pd

FETCH_AGAIN = "copy or download it again"

MOST_COLUMNS = 10_000
"""Maximum number of columns of a CSV file; pandas takes minutes for ten times as many."""

_LONGEST_START = 2 << 20
_BLANK = ([], [""])
_LARGEST_OWN_TABLE_BYTES = 64 << 20


def open_input(path: str | os.PathLike, expected: str) -> BinaryIO:
    """Open a file; raises `InputError` if it is missing, a folder, empty, or may not be read."""
    where = str(path)
    try:
        if Path(path).is_dir():
            raise InputError(where, "is a folder", expected, "name a file in it")
        if not Path(path).stat().st_size:
            raise InputError(where, "is empty", expected, FETCH_AGAIN)
        return Path(path).open("rb")
    except FileNotFoundError as error:
        remedy = "check the spelling; a relative path starts from the working directory"
        raise MissingFileError(where, "there is no such file", expected, remedy) from error
    except OSError as error:
        found = f"cannot be opened ({error.strerror})"
        raise InputError(where, found, expected, "check the path and its permissions") from error


def column_names(where: str, file: BinaryIO, expected: str, remedy: str) -> list[str]:
    """Return the stripped names in the first line of a CSV file; raises `InputError`.

    The first two lines determine the time and memory that pandas needs in addition to the size of
    the file. Both are therefore checked: they may have at most 2 MiB and `MOST_COLUMNS` values.
    `where`, `expected` and `remedy` are used in messages: the name of the file, the expected
    content, and what to do if it is wrong.
    """
    file.seek(0)
    start = file.read(_LONGEST_START)
    is_whole = len(start) < _LONGEST_START
    with _text_errors(where, expected, remedy):
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(start, final=is_whole)
        reader = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True)
        lines = list(islice((row for row in reader if row not in _BLANK), 3))
    if len(lines) < 3 and not is_whole:
        found = f"has first lines of more than {_LONGEST_START >> 20} MiB"
        raise InputError(where, found, expected, remedy)
    columns = max(map(len, lines), default=0)
    if columns > MOST_COLUMNS:
        found = f"has {columns:,} columns"
        raise InputError(where, found, f"at most {MOST_COLUMNS:,}", remedy)
    if not lines or not lines[0]:
        raise InputError(where, "is not a table (it has no names)", expected, remedy)
    return [name.strip() for name in lines[0]]


def read_own_csv(path: Path, expected: str, remedy: str) -> dict[str, list[str]]:
    """Read the columns of a CSV file that a rule wrote, as text, without importing pandas.

    Raises `InputError` if the file is missing or damaged.
    """
    try:
        text = read_whole(path, _LARGEST_OWN_TABLE_BYTES).decode("utf-8-sig")
        lines = csv.reader(io.StringIO(text, newline=""))
        names, *rows = (row for row in lines if row not in _BLANK)
        if len(set(names)) < len(names) or any(len(row) != len(names) for row in rows):
            raise ValueError("its names or the lengths of its lines are wrong")
    except (OSError, ValueError, csv.Error) as error:
        found = f"is damaged ({type(error).__name__}: {error})"
        raise InputError(str(path), found, expected, remedy) from error
    return {name: [row[column] for row in rows] for column, name in enumerate(names)}


def read_csv_in_parts(
    where: str, file: BinaryIO, expected: str, remedy: str, *, columns: int, rows: int
) -> Iterator["pd.DataFrame"]:
    """Read the cells of a CSV file as text, in parts of at most `rows` rows; `columns` is the
    number of its columns, see `column_names`. Raises `InputError` if a line has more.
    """
    import pandas as pd

    file.seek(0)
    options: dict[str, Any] = {"dtype": str, "keep_default_na": False, "index_col": False}
    options |= {"skipinitialspace": True, "encoding": "utf-8-sig", "header": 0, "engine": "c"}
    with _table_errors(where, expected, remedy):
        parts: Any = pd.read_csv(file, names=range(columns), chunksize=rows, **options)
    while True:
        with _table_errors(where, expected, remedy):
            part = next(parts, None)
        if part is None:
            return
        yield part


@contextmanager
def _text_errors(where: str, expected: str, remedy: str) -> Iterator[None]:
    """Convert errors of decoding and of Python's CSV parser to `InputError`."""
    try:
        yield
    except (csv.Error, UnicodeError) as error:
        found = f"is not a table ({str(error).strip()})"
        raise InputError(where, found, expected, remedy) from error


@contextmanager
def _table_errors(where: str, expected: str, remedy: str) -> Iterator[None]:
    """Convert errors of pandas to `InputError`."""
    import pandas as pd

    try:
        with warnings.catch_warnings(), _text_errors(where, expected, remedy):
            warnings.simplefilter("ignore")  # a cell out of range is reported later, with its line
            warnings.simplefilter("error", pd.errors.ParserWarning)
            yield
    except pd.errors.ParserWarning as error:
        found = "has lines with more values than the first line has names"
        raise InputError(where, found, expected, remedy) from error
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        found = f"is not a table ({str(error).strip()})"
        raise InputError(where, found, expected, remedy) from error


def wrong_cell(
    where: str, name: str, wrong: np.ndarray, cells: np.ndarray, expected: str, first_line: int = 2
) -> InputError:
    """Return the error for the first wrong cell of a column.

    At least one of the `cells` must be `wrong`; the first cell is in the line `first_line` of the
    file.
    """
    row = int(np.argmax(wrong))
    cell = str(cells[row]).removesuffix(".0")[:40] or "empty"
    found = f"{name} in line {row + first_line} is {cell}"
    others = f" (and {np.count_nonzero(wrong) - 1:,} more)" if wrong.sum() > 1 else ""
    return InputError(where, found + others, expected, "correct the table")


_LARGEST_BYTES = 16 << 20


def read_json(
    path: Path, keys: Iterable[str] = (), own: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Read an object from a JSON file that a rule wrote.

    It must have the `keys`, and the values `own`, which identify the folder that it belongs to,
    such as ``{"image": "cub"}``. Raises `InputError` if it does not, or is missing or damaged.
    """
    expected = "a JSON file written by neuralfield"
    try:
        content = json.loads(read_whole(path, _LARGEST_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        found = f"is damaged ({type(error).__name__}: {error})"
        if isinstance(error, OSError):
            found = f"cannot be read ({error.strerror})"
        raise InputError(str(path), found, expected, remedy_for(path)) from error
    needed = [*keys, *(own or ())]
    missing = [key for key in needed if not isinstance(content, dict) or key not in content]
    if missing or not isinstance(content, dict):
        raise InputError(str(path), f"lacks {', '.join(missing)}", expected, remedy_for(path))
    for key, value in (own or {}).items():
        if content[key] != value:
            found, expected = f"has the {key} {content[key]!r}", f"the {key} {value!r}"
            raise InputError(str(path), found, expected, remedy_for(path))
    return content
