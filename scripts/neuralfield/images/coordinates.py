"""Coordinates of pixels, the same function of position at every size.

Coordinates are those of pixel centres, x to the right and y down, both scaled by the longer side
into [-1, 1]: column i of w has its centre at (2i + 1 - w) / max(w, h). An image twice as large has
its pixel centres between the old ones, and nothing shifts.
"""

from types import ModuleType

import numpy as np

from neuralfield.system.device import Array, namespace_of

Box = tuple[float, float, float, float]
"""left, top, right, bottom, as fractions of the image's sides."""

WHOLE: Box = (0.0, 0.0, 1.0, 1.0)


def extent(width: int, height: int) -> tuple[float, float]:
    """Return half the image's sides in coordinates: (1, h / w) or (w / h, 1)."""
    longer = max(width, height)
    return width / longer, height / longer


def axis_centres(
    xp: ModuleType, count: int, half_side: float, start: float = 0.0, end: float = 1.0
) -> Array:
    """Return the centres of `count` equal intervals in the part [start, end] of a side, which runs
    from -`half_side` to `half_side`; float64, shape (count,).
    """
    # on the host: on a GPU each operation would be a kernel to load
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
