"""Coordinates of pixel centres; a place in an image has the same coordinates at every size.

x points to the right and y down, both scaled such that the longer side spans [-1, 1]: column i of w
has its centre at (2i + 1 - w) / max(w, h). If an image is rendered at twice the size, four pixel
centres lie evenly around each old one, so that the content does not shift.
"""

from types import ModuleType

import numpy as np

from neuralfield.system.device import Array, namespace_of

Box = tuple[float, float, float, float]
"""left, top, right, bottom, as fractions of the image's sides."""

WHOLE: Box = (0.0, 0.0, 1.0, 1.0)


def extent(width: int, height: int) -> tuple[float, float]:
    """Return half the width and height of an image in coordinates: (1, h / w) or (w / h, 1)."""
    longer = max(width, height)
    return width / longer, height / longer


def axis_centres(
    xp: ModuleType, count: int, half_side: float, start: float = 0.0, end: float = 1.0
) -> Array:
    """Return the centres of `count` equal intervals in a part of a side; float64, shape (count,).

    The side spans [-`half_side`, `half_side`]; `start` and `end` are fractions of it.
    """
    # computed on the host, because on a GPU each operation would be another kernel to load
    fraction = start + (end - start) * (np.arange(count, dtype=np.float64) + 0.5) / count
    return xp.asarray((2 * fraction - 1) * half_side)


def grid(columns: Array, rows: Array) -> Array:
    """Return all points (x, y), row by row; shape (rows * columns, 2)."""
    xp = namespace_of(columns)
    points = xp.empty((rows.size, columns.size, 2), dtype=columns.dtype)
    points[..., 0] = columns[None, :]
    points[..., 1] = rows[:, None]
    return points.reshape(-1, 2)


def pixel_centres(xp: ModuleType, width: int, height: int) -> Array:
    """Return the centre of every pixel, row by row; float64, shape (height * width, 2)."""
    half_width, half_height = extent(width, height)
    return grid(axis_centres(xp, width, half_width), axis_centres(xp, height, half_height))
