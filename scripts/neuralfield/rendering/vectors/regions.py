"""The connected regions in which a function is positive, as closed polylines."""

from itertools import pairwise

import numpy as np


def positive_regions(
    values: np.ndarray, per_pixel: int, least_area: float
) -> list[list[np.ndarray]]:
    """Return the outlines of each region: the outer one, and then those of its holes.

    Outlines are closed polylines of shape (n, 2), in training pixels from the upper left corner of
    the image. Regions and holes with an area below `least_area` are left out.

    Parameters
    ----------
    values : ndarray, shape (height, width)
        The function at the centres of pixels, of which a training pixel has `per_pixel` a side.
    """
    # imported here, because nothing else in the package needs it
    from contourpy import FillType, contour_generator

    y, x = (
        np.concatenate([[0], np.arange(side) + 0.5, [side]]) / per_pixel for side in values.shape
    )
    # the values at the border are those of the nearest pixels
    generator = contour_generator(x, y, np.pad(values, 1, "edge"), fill_type=FillType.OuterOffset)
    regions = []
    for points, starts in zip(*generator.filled(0, np.inf), strict=True):
        outlines = [points[a : b - 1] for a, b in pairwise(starts)]
        outer, *holes = outlines
        if _area(outer) >= least_area:
            regions.append([outer, *(hole for hole in holes if _area(hole) >= least_area)])
    return regions


def _area(line: np.ndarray) -> float:
    x, y = (line - line[0]).T
    return abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1))) / 2
