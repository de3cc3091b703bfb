"""The CSV file of pixels that training reads, with one line per pixel."""

import io
import os
import re
import warnings
from itertools import pairwise
from typing import BinaryIO

import numpy as np

from neuralfield.images.image import ImageData
from neuralfield.system.errors import InputError
from neuralfield.system.files import replacing
from neuralfield.system.input_files import column_names, open_input, wrong_cell

VALUE_COLUMNS = {
    "grey": ["pixel_value"],
    "rgb": ["red", "green", "blue"],
    "rgba": ["red", "green", "blue", "alpha"],
}
EXPECTED = "a table of pixels with the columns x,y,pixel_value or x,y,red,green,blue[,alpha]"
ONE_LINE = "write one line per pixel, with a value for every name in the first line"
MAX_SIDE_PX = 2**31 - 1
BAND_PIXELS = 2**18


def write_pixel_csv(path: str | os.PathLike, image: ImageData) -> None:
    """Write every pixel of an image as a line of a CSV file, row by row from the top left.

    Values are level / `max_value` in float32, as the shortest decimals that round-trip.
    """
    mode = "grey" if image.channels == 1 else image.mode
    texts_of_levels = _level_texts(image.max_value)
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(",".join(["x", "y", *VALUE_COLUMNS[mode]]).encode() + b"\n")
        rows_per_band = max(1, BAND_PIXELS // image.width)
        for top in range(0, image.height, rows_per_band):
            levels = image.pixels[top : top + rows_per_band]
            file.write(_band_text(levels, top, texts_of_levels))


def read_pixel_csv(path: str | os.PathLike) -> np.ndarray:
    """Read a table of pixels; return float32, shape (height, width, 1, 3 or 4).

    The columns are ``x,y,pixel_value`` or ``x,y,red,green,blue`` with or without ``alpha``; x and y
    are whole numbers from the top left, and values are in [0, 1]. Rows and columns may be in any
    order. Raises `InputError` if the table is not of this form, or a pixel is missing or duplicate.
    """
    where = str(path)
    with open_input(path, EXPECTED) as file:
        names, value_columns = _columns(where, file)
        table = _numbers(where, file, names)
    values = np.column_stack([table[name] for name in value_columns])
    _require_unit_range(where, values, value_columns)
    order, width, height = _order_of_pixels(where, table["x"], table["y"])
    if order is not None:
        values = values[order]
    return values.reshape(height, width, len(value_columns))


def _level_texts(max_value: int) -> np.ndarray:
    """Return a comma and the decimal of each level; uint8 (levels, longest), padded with zeros."""
    values = np.arange(max_value + 1, dtype=np.float32) / np.float32(max_value)
    texts = [np.format_float_positional(value, unique=True, trim="-") for value in values]
    return _characters([f",{text}" for text in texts])


def _characters(texts: list[str]) -> np.ndarray:
    """Return ASCII texts as a matrix of bytes, one text a row, padded with zeros."""
    padded = np.array(texts, dtype="S")
    return padded.view(np.uint8).reshape(len(texts), -1)


def _band_text(levels: np.ndarray, top: int, texts_of_levels: np.ndarray) -> bytes:
    """Return the lines of a band: a matrix of bytes with one pixel per row, without its zeros."""
    height, width, channels = levels.shape
    x = _characters([str(column) for column in range(width)])
    y = _characters([f",{row}" for row in range(top, top + height)])
    ends = np.cumsum([0, x.shape[1], y.shape[1], *[texts_of_levels.shape[1]] * channels])
    text = np.empty((height, width, ends[-1] + 1), np.uint8)
    text[..., : ends[1]] = x
    text[..., ends[1] : ends[2]] = y[:, None]
    for channel, (start, end) in enumerate(pairwise(ends[2:])):
        text[..., start:end] = texts_of_levels[levels[..., channel]]
    text[..., -1] = ord("\n")
    return text[text != 0].tobytes()


def _columns(where: str, file: BinaryIO) -> tuple[list[str], list[str]]:
    """Check the header, and return the names of all columns and those of the value columns."""
    names = column_names(where, file, EXPECTED, ONE_LINE)
    mode = "grey" if "pixel_value" in names else "rgba" if "alpha" in names else "rgb"
    needed = ["x", "y", *VALUE_COLUMNS[mode]]
    missing = [name for name in needed if name not in names]
    listed = ", ".join(names)[:200]
    if missing:
        found = f"has no column {', '.join(missing)}; its columns are: {listed}"
        remedy = "separate them by commas and name them in the first line"
        raise InputError(where, found, EXPECTED, remedy)
    if len(names) > len(needed):
        found = f"has the columns {listed}"
        raise InputError(where, found, f"only {', '.join(needed)}", "remove the others")
    return names, VALUE_COLUMNS[mode]


def _numbers(where: str, file: BinaryIO, names: list[str]) -> np.ndarray:
    """Read the lines after the names, as float64 positions and float32 values; ranges are checked
    later.
    """
    types = [(name, np.float64 if name in ("x", "y") else np.float32) for name in names]
    file.seek(0)
    text = io.TextIOWrapper(file, "utf-8-sig")
    while not text.readline().strip():  # up to the names
        pass
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a table without rows
            table = np.loadtxt(
                text, types, comments=None, delimiter=",", quotechar='"', ndmin=1, encoding=None
            )
    except ValueError as error:
        raise _unreadable_line(where, str(error), names) from error
    if not len(table):
        raise InputError(where, "has no rows", EXPECTED, ONE_LINE)
    return table


def _unreadable_line(where: str, reason: str, names: list[str]) -> InputError:
    """Return the error for a line that NumPy cannot read, given its reason."""
    if cell := re.search(r"string '(.*)' to \w+ at row (\d+), column (\d+)", reason):
        found = f"{names[int(cell[3]) - 1]} in line {int(cell[2]) + 2} is {cell[1] or 'empty'}"
        return InputError(where, found, "a number", "correct the table")
    if count := re.search(r"(\d+) were found at row (\d+)", reason):
        found = f"has {count[1]} values in line {int(count[2]) + 1}, and {len(names)} names"
        return InputError(where, found, EXPECTED, ONE_LINE)
    return InputError(where, f"is not a table ({reason})", EXPECTED, ONE_LINE)


def _require_unit_range(where: str, values: np.ndarray, value_columns: list[str]) -> None:
    for channel, name in enumerate(value_columns):
        column = values[:, channel]
        wrong = ~((column >= 0) & (column <= 1))  # NaN is neither
        if wrong.any():
            raise wrong_cell(where, name, wrong, column, "a number from 0 to 1")


def _order_of_pixels(
    where: str, x: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray | None, int, int]:
    """Return the order of rows by pixel (None if they are sorted), and width and height in px."""
    for name, column in (("x", x), ("y", y)):
        wrong = ~((column >= 0) & (column < MAX_SIDE_PX) & (column == np.floor(column)))
        if wrong.any():
            expected = f"a whole number of pixels from 0 to {MAX_SIDE_PX - 1}"
            raise wrong_cell(where, name, wrong, column, expected)
    width, height = int(x.max()) + 1, int(y.max()) + 1
    position = y.astype(np.int64) * width + x.astype(np.int64)
    consecutive = np.arange(len(position))
    if len(position) == width * height and np.array_equal(position, consecutive):
        return None, width, height
    order = np.argsort(position, kind="stable")
    position = position[order]
    again = np.flatnonzero(position[1:] == position[:-1])
    if len(again):
        row, column = divmod(int(position[again[0]]), width)
        lines = " and ".join(str(line + 2) for line in order[again[0] : again[0] + 2])
        found = f"pixel x={column}, y={row} occurs twice, in lines {lines}"
        others = f" (and {len(again) - 1:,} more)" if len(again) > 1 else ""
        raise InputError(where, found + others, "each pixel once", "remove one of the two")
    missing = width * height - len(position)
    if missing:
        gaps = np.flatnonzero(position != consecutive)
        row, column = divmod(int(gaps[0]) if len(gaps) else len(position), width)
        raise InputError(
            where,
            f"lacks {missing:,} of {width} x {height} pixels, the first at x={column}, y={row}",
            "every pixel of a rectangle, x and y counted from 0 at the top left",
            "add them, or correct the x and y that are too large",
        )
    return order, width, height
