"""The corners of a hash grid beside an image's pixels, as the kernels of its gradient read them."""

from dataclasses import dataclass

import numpy as np

from neuralfield.fields.hashgrid import Level


@dataclass(frozen=True)
class AxisCorners:
    """Corners of a grid along one axis of an image, and the pixels next to each corner.

    `corners`, shape (k,), are those next to any pixel, in order. `spans` has shape (k, 3): pixels
    from the first number to the second lie in the cell before the corner, and their weight is their
    part; pixels from the second number to the third lie in the cell after it, and their weight is
    1 - part. `parts`, shape (n,), are the distances of each pixel from the corner before it, in
    cells.
    """

    corners: np.ndarray
    spans: np.ndarray
    parts: np.ndarray


def axis_corners(centres: np.ndarray, resolution: int) -> AxisCorners:
    """List the corners along an axis with pixels at increasing coordinates, shape (n,)."""
    number = centres.dtype.type
    position = (centres + number(1)) * number(0.5) * number(resolution)
    # a point on the far edge belongs to the last cell
    before = np.clip(np.floor(position), 0, resolution - 1)
    near = before.astype(np.int64)
    corners = np.unique(np.concatenate([near, near + 1]))
    # the first pixel whose cell begins at a corner or beyond; all numbers are whole
    spans = np.stack([np.searchsorted(near, corners + step) for step in (-1, 0, 1)], axis=1)
    return AxisCorners(corners, spans.astype(np.int32), position - before)


def corners_of_rows(
    level: Level, columns: np.ndarray, lines: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Find which of the corners in these columns and lines share a row of the table.

    Return the number of corners of each of the level's rows, and the corners, shape (lines *
    columns,), in the order of their rows; corners are numbered line by line.
    """
    rows = level.row_of(columns[None, :], lines[:, None]).ravel() - level.start
    return np.bincount(rows, minlength=level.rows), np.argsort(rows, kind="stable").astype(np.int32)
