"""Twins of the kernels of hash grids: features of points, and the gradient of the table.

Levels are triples: a grid's resolution, its first row in the table, and how many rows it has there;
see `neuralfield.fields.hashgrid.Level`. How corners and pixels are listed here is how the kernels
are given them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

Level = tuple[int, int, int]

_PRIME = 2654435761
_CORNERS = [(i, j) for j in (0, 1) for i in (0, 1)]
"""Steps from a cell's first corner to the others, along columns and lines."""


def near_corner(coordinates: np.ndarray, resolution: int) -> tuple[np.ndarray, np.ndarray]:
    """The corner of each point's cell that is nearest to the origin, along an axis.

    Parameters
    ----------
    coordinates : ndarray of float, shape (n,)
    resolution : int

    Returns
    -------
    corners : ndarray of int64, shape (n,)
    parts : ndarray of the dtype of `coordinates`, shape (n,)
        How far points are from there, in cells.
    """
    number = coordinates.dtype.type
    position = (coordinates + number(1)) * number(0.5) * number(resolution)
    # a point on the far edge belongs to the last cell
    corner = np.clip(np.floor(position), 0, resolution - 1)
    return corner.astype(np.int64), position - corner


def is_hashed(level: Level) -> bool:
    """Whether corners share rows, because there are more of them."""
    resolution, _, rows = level
    return rows < (resolution + 1) ** 2


def table_rows(level: Level, columns: np.ndarray, lines: np.ndarray) -> np.ndarray:
    """Rows of corners in the table; arrays of int64."""
    resolution, start, rows = level
    if is_hashed(level):
        return start + ((columns ^ (lines * _PRIME)) & (rows - 1))
    return start + lines * (resolution + 1) + columns


def features(levels: Sequence[Level], table: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Features of points.

    Parameters
    ----------
    levels : sequence of Level
    table : ndarray, shape (rows, size)
    points : ndarray of float, shape (n, 2)

    Returns
    -------
    ndarray of float64, shape (n, L * size)
    """
    table = table.astype(np.float64)
    return np.concatenate(
        [sum(w[:, None] * table[r] for r, w in _corners(level, points)) for level in levels], axis=1
    )


def gradient_of_points(
    levels: Sequence[Level], shape: tuple[int, int], points: np.ndarray, slopes: np.ndarray
) -> np.ndarray:
    """The gradient of a table, from slopes of points' features.

    Parameters
    ----------
    levels : sequence of Level
    shape : (int, int)
        Of the table.
    points : ndarray of float, shape (n, 2)
    slopes : ndarray, shape (n, L * size)

    Returns
    -------
    ndarray of float64, of that shape
    """
    gradient = np.zeros(shape)
    for level, of_level in zip(levels, np.split(slopes, len(levels), axis=1), strict=True):
        for rows, weights in _corners(level, points):
            np.add.at(gradient, rows, weights[:, None] * of_level)
    return gradient


def _corners(level: Level, points: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows and weights of the four corners around points, one after the other."""
    (x, u), (y, v) = (near_corner(axis, level[0]) for axis in points.T)
    for i, j in _CORNERS:
        yield table_rows(level, x + i, y + j), (u if i else 1 - u) * (v if j else 1 - v)


@dataclass(frozen=True)
class AxisCorners:
    """Corners of a grid, along one axis of a picture, and the pixels that each is next to.

    Attributes
    ----------
    corners : ndarray of int64, shape (k,)
        Those next to any pixel, in order.
    spans : ndarray of int32, shape (k, 3)
        Pixels from the first to the second lie behind the corner, in the cell before it, and have
        their part as weight; those from the second to the third lie before it, with 1 - part.
    parts : ndarray of float, shape (n,)
        Of pixels, see `near_corner`.
    """

    corners: np.ndarray
    spans: np.ndarray
    parts: np.ndarray

    @property
    def weights(self) -> np.ndarray:
        """Of all pixels at all corners, shape (k, n)."""
        first, middle, last = self.spans.T[:, :, None]
        pixel = np.arange(len(self.parts))
        behind = (first <= pixel) & (pixel < middle)
        before = (middle <= pixel) & (pixel < last)
        return behind * self.parts + before * (1 - self.parts)


def axis_corners(centres: np.ndarray, resolution: int) -> AxisCorners:
    """Along an axis with pixels at increasing coordinates, shape (n,)."""
    near, parts = near_corner(centres, resolution)
    corners = np.unique(np.concatenate([near, near + 1]))
    # all are whole numbers: the first pixel at a corner or beyond
    spans = np.stack([np.searchsorted(near, corners + step) for step in (-1, 0, 1)], axis=1)
    return AxisCorners(corners, spans.astype(np.int32), parts)


def corners_of_rows(
    level: Level, columns: np.ndarray, lines: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Which corners share a row of the table.

    Parameters
    ----------
    level : Level
    columns, lines : ndarray of int64
        Along each axis, the corners that are there.

    Returns
    -------
    counts : ndarray of int64, shape (rows,)
        How many corners each of the level's rows has.
    corners : ndarray of int32, shape (lines * columns,)
        Row by row; corners are counted line by line.
    """
    rows = table_rows(level, columns[None, :], lines[:, None]).ravel() - level[1]
    return np.bincount(rows, minlength=level[2]), np.argsort(rows, kind="stable").astype(np.int32)


def gradient_of_picture(
    levels: Sequence[Level],
    shape: tuple[int, int],
    centres: tuple[np.ndarray, np.ndarray],
    slopes: np.ndarray,
) -> np.ndarray:
    """As `gradient_of_points`, for all pixels of a picture.

    Parameters
    ----------
    levels : sequence of Level
    shape : (int, int)
        Of the table.
    centres : ndarray, shape (width,), and ndarray, shape (height,)
        x of columns of pixels, and y of lines.
    slopes : ndarray, shape (height * width, L * size)

    Returns
    -------
    ndarray of float64, of that shape
    """
    width, height = map(len, centres)
    gradient = np.zeros(shape)
    for level, of_level in zip(levels, np.split(slopes, len(levels), axis=1), strict=True):
        across, down = (axis_corners(axis, level[0]) for axis in centres)
        of_lines = np.einsum("cx,yxf->ycf", across.weights, of_level.reshape(height, width, -1))
        sums = np.einsum("ly,ycf->lcf", down.weights, of_lines).reshape(-1, shape[1])
        counts, corners = corners_of_rows(level, across.corners, down.corners)
        rows = level[1] + np.repeat(np.arange(level[2]), counts)
        np.add.at(gradient, rows, sums[corners])
    return gradient
