"""Training samples, read from the rows of a CSV file, with columns selected by name."""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from neuralfield.system.errors import ConfigError, InputError, did_you_mean
from neuralfield.system.input_files import column_names, open_input, read_csv_in_parts, wrong_cell
from neuralfield.system.random_streams import STREAM_HELD_OUT, permutation

LARGEST_NUMBER = 1e30
"""Maximum absolute value of a number: it is finite in float32, and sums of its squares are finite
in float64."""

MOST_BYTES = 1 << 30

_EXPECTED = "a table of numbers: CSV, with the columns' names in its first line"
_ONE_LINE = "write one line per sample, with a value for every name in the first line"
_A_NUMBER = "a number, written like -1.5 or 2e-3"
_ROWS_AT_ONCE = 1 << 15


@dataclass(frozen=True, eq=False)
class Samples:
    """Inputs of a network, and their targets."""

    where: str  # the file of the samples, for messages
    # names of the columns
    inputs: tuple[str, ...]
    targets: tuple[str, ...]
    input_values: np.ndarray  # float64, shape (n, inputs)
    target_values: np.ndarray  # float64, shape (n, targets)

    @property
    def count(self) -> int:
        return len(self.input_values)

    @property
    def digest(self) -> str:
        """The SHA-256 of names and numbers, in hexadecimal."""
        names = json.dumps([self.inputs, self.targets, self.count])
        digest = hashlib.sha256(names.encode())
        for values in (self.input_values, self.target_values):
            digest.update(np.ascontiguousarray(values, "<f8").data)
        return digest.hexdigest()

    def rows(self, chosen: np.ndarray) -> "Samples":
        """Return some of the rows, selected by a mask or by indices."""
        values = self.input_values[chosen], self.target_values[chosen]
        return Samples(self.where, self.inputs, self.targets, *values)

    def are_classes(self) -> bool:
        """Whether all targets are 0 or 1."""
        return bool(((self.target_values == 0) | (self.target_values == 1)).all())

    def require_probabilities(self) -> None:
        """Check that all targets are in [0, 1], as needed if the outputs are probabilities.

        Raises an `InputError` that names the first target outside [0, 1].
        """
        expected = "a number from 0 to 1, as the output of the network is sigmoid"
        for name, values in zip(self.targets, self.target_values.T, strict=True):
            wrong = (values < 0) | (values > 1)
            if wrong.any():
                raise wrong_cell(self.where, name, wrong, values, expected)


def read_samples(path: str | os.PathLike, inputs: Sequence[str], targets: Sequence[str]) -> Samples:
    """Read the inputs and the targets of every row of a CSV file; other columns are ignored.

    All names must be different. For errors see `read_columns`.
    """
    values = read_columns(path, [*inputs, *targets])
    parts = values[:, : len(inputs)], values[:, len(inputs) :]
    return Samples(os.fspath(path), tuple(inputs), tuple(targets), *parts)


def read_columns(path: str | os.PathLike, names: Sequence[str]) -> np.ndarray:
    """Read some columns of a CSV file whose first line contains the names of its columns.

    Returns float64 of shape (n, names), all finite and at most 1e30 in absolute value. The file is
    read in parts, so that the memory use depends on the numbers in the selected columns. Raises
    `InputError` if the file is larger than 1 GiB or invalid.
    """
    where = os.fspath(path)
    with open_input(path, _EXPECTED) as file:
        size = os.fstat(file.fileno()).st_size
        if size > MOST_BYTES:
            found = f"has {size >> 20:,} MiB"
            raise InputError(where, found, f"at most {MOST_BYTES >> 20:,} MiB", "use fewer rows")
        present = column_names(where, file, _EXPECTED, _ONE_LINE)
        places = [_place(where, name, present) for name in names]
        parts = [
            _numbers(where, part[places].to_numpy(object), names, part.index[0] + 2)
            for part in read_csv_in_parts(
                *(where, file, _EXPECTED, _ONE_LINE), columns=len(present), rows=_ROWS_AT_ONCE
            )
            if len(part)
        ]
    if not parts:
        raise InputError(where, "has no rows", _EXPECTED, _ONE_LINE)
    return np.concatenate(parts)


def held_out_rows(count: int, share: float, random_seed: int) -> np.ndarray:
    """Select random rows for testing, which are not used for training; bool, shape (count,).

    Their number is `share` times `count`, rounded. Raises `ConfigError` if no row is left for
    training.
    """
    held_out = round(share * count)
    if held_out >= count:
        expected = "a share that leaves at least one row for training"
        raise ConfigError("held_out_share", f"{share:g} of {count:,} rows", expected)
    mask = np.zeros(count, dtype=bool)
    mask[permutation(count, random_seed, (0, STREAM_HELD_OUT))[:held_out]] = True
    return mask


def _place(where: str, name: str, present: list[str]) -> int:
    """Return the index of a column; raise an error unless it exists exactly once."""
    listed = ", ".join(present)[:200]
    times = present.count(name)
    if times > 1:
        found = f"has {times} columns named {name}"
        raise InputError(where, found, "a different name for each column", "rename the others")
    if not times:
        remedy = did_you_mean(name, present) or "separate them by commas"
        found = f"has no column {name}; its columns are: {listed}"
        raise InputError(where, found, "the columns that the settings name", remedy)
    return present.index(name)


def _numbers(where: str, cells: np.ndarray, names: Sequence[str], first_line: int) -> np.ndarray:
    """Convert cells to numbers, or raise an error for the first invalid cell, column by column."""
    try:
        values = cells.astype(np.float64)
        if (np.abs(values) <= LARGEST_NUMBER).all():
            return values
    except ValueError:
        pass
    for column, name in enumerate(names):
        texts = [cell.strip() if isinstance(cell, str) else "" for cell in cells[:, column]]
        wrong = np.array([not _is_number(text) for text in texts])
        if wrong.any():
            found = np.array([repr(text)[:40] if text else "" for text in texts], dtype=object)
            raise wrong_cell(where, name, wrong, found, _A_NUMBER, first_line)
    raise AssertionError("a cell is no number for NumPy, and is one for Python")


def _is_number(text: str) -> bool:
    try:
        return abs(float(text)) <= LARGEST_NUMBER
    except ValueError:
        return False
