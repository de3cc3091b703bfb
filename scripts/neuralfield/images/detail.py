"""The part of an image with the most detail, to be shown pixel by pixel."""

import numpy as np

CROP_SHARE = 6
SMALLEST_CROP_PX, LARGEST_CROP_PX = 32, 160

Box = tuple[int, int, int, int]
"""left, top, right, bottom, in pixels."""


def most_detailed_box(values: np.ndarray, cell_px: int) -> Box:
    """Find the square with the most detail; its side is about a sixth of the image's longer side.

    The measure of detail is the mean over the square of the variance in neighbourhoods of side
    `cell_px`. The size of a pixel of the training image is a good choice for `cell_px`, because the
    network had to guess all detail within such a pixel.
    """
    height, width = values.shape[:2]
    side = int(np.clip(max(height, width) // CROP_SHARE, SMALLEST_CROP_PX, LARGEST_CROP_PX))
    side = min(side, height, width)
    cell_px = min(max(cell_px, 2), side)
    variance = sum(
        _box_means(plane**2, cell_px) - _box_means(plane, cell_px) ** 2
        for plane in np.moveaxis(values.astype(np.float64), 2, 0)
    )
    detail = _box_means(np.asarray(variance), side - cell_px + 1)
    top, left = np.unravel_index(int(detail.argmax()), detail.shape)
    return int(left), int(top), int(left) + side, int(top) + side


def _box_means(plane: np.ndarray, side: int) -> np.ndarray:
    """Return the means over all squares inside the plane, computed from cumulative sums."""
    total = np.pad(plane.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
    squares = total[side:, side:] - total[:-side, side:] - total[side:, :-side]
    return (squares + total[:-side, :-side]) / side**2
