"""Making an image smaller or larger."""

import math
import operator
from collections.abc import Sequence

import numpy as np
from PIL import Image

from neuralfield.images.image import CHANNELS, Picture, convert_values, require_mode
from neuralfield.system.errors import ConfigError

FILTERS = ("box", "lanczos", "bicubic")


def resize_picture(
    picture: Picture,
    size: int | Sequence[int] | None,
    filter: str = "box",
    threshold: float = 0.5,
    *,
    mode: str = "auto",
) -> Picture:
    """Resize a picture, in float32 and with the depth it has.

    Parameters
    ----------
    picture : Picture
    size : int, (int, int) or None
        The longer side in px, the other one following the picture's shape; or width and height;
        or None for the picture's own size.
    filter : {"box", "lanczos", "bicubic"}
        Widened to the pixels that it reduces, so that nothing aliases. ``box`` makes every pixel
        the mean of the light over its square, exactly: pixels that the square cuts count by the
        part that is inside. It repeats pixels when it enlarges.
    threshold : float
        For `mode` ``bilevel``: a luma of at least this is white, judged after the resizing.
    mode : {"auto", "bilevel", "grey", "rgb", "rgba"}
        What comes out. ``auto`` keeps the mode, except that a bilevel picture of a new size
        becomes one of 8-bit greys: the means carry where in a pixel an edge runs.

    Returns
    -------
    Picture

    Raises
    ------
    ConfigError
        The size, filter or mode is not one of these.

    Notes
    -----
    Colour is multiplied by alpha while it is resized, so that what is hidden does not bleed into
    what is seen. Where nothing at all is seen, the colour is black.
    """
    if filter not in FILTERS:
        raise ConfigError("filter", repr(filter), f"one of {', '.join(FILTERS)}")
    require_mode(mode, "auto")
    size_px = _target_size(picture, size)
    if size_px == (picture.width, picture.height):
        return picture if mode == "auto" else picture.converted(mode, threshold)
    if mode == "auto":
        mode = "grey" if picture.mode == "bilevel" else picture.mode
    values = np.clip(_resized_values(picture, size_px, filter), 0, 1)
    bit_depth = 1 if mode == "bilevel" else max(picture.bit_depth, 8)
    return Picture.from_values(convert_values(values, CHANNELS[mode]), mode, bit_depth, threshold)


def _target_size(picture: Picture, size: int | Sequence[int] | None) -> tuple[int, int]:
    """Width and height in px of what `size` asks for."""
    own_size = (picture.width, picture.height)
    if size is None:
        return own_size
    asked, count = (size, 2) if isinstance(size, Sequence) else ([size], 1)
    try:
        sides = [operator.index(side) for side in asked]
    except TypeError:
        sides = []
    if len(sides) != count or min(sides) < 1:
        raise ConfigError(
            "size",
            repr(size),
            "a whole number of pixels >= 1 for the longer side, or [width, height]",
            "remove it to keep the picture's own size",
        )
    if count == 2:
        return sides[0], sides[1]
    longer = max(own_size)
    # Whole-number arithmetic: half a pixel always rounds up, at any size.
    width, height = (max(1, (2 * side * sides[0] + longer) // (2 * longer)) for side in own_size)
    return width, height


def _resized_values(picture: Picture, size_px: tuple[int, int], filter: str) -> np.ndarray:
    """Resize channel by channel; float32 (height, width, channels), not clipped."""

    def resized(channel: np.ndarray) -> np.ndarray:
        return resize_channel(channel, size_px, filter)

    def light(index: int) -> np.ndarray:
        return picture.pixels[..., index].astype(np.float32) / np.float32(picture.max_value)

    if picture.mode != "rgba":
        return np.stack([resized(light(index)) for index in range(picture.channels)], axis=2)
    alpha = light(3)
    visible = np.clip(resized(alpha), 0, 1)
    colours = [resized(light(index) * alpha) for index in range(3)]
    seen = visible > 0
    colours = [np.divide(c, visible, out=np.zeros_like(c), where=seen) for c in colours]
    return np.stack([*colours, visible], axis=2)


def resize_channel(
    channel: np.ndarray,
    size_px: tuple[int, int],
    filter: str,
    window: tuple[float, float, float, float] | None = None,
) -> np.ndarray:
    """Resize one channel, or a part of it.

    Parameters
    ----------
    channel : ndarray of float32, shape (height, width)
    size_px : (width, height)
    filter : {"box", "lanczos", "bicubic"}
    window : (left, top, right, bottom), optional
        The part, in px, with or without fractions. What a filter reaches beyond it counts too.

    Returns
    -------
    ndarray of float32, not clipped
    """
    if filter == "box":
        left, top, right, bottom = window or (0, 0, channel.shape[1], channel.shape[0])
        rows = _means_over_intervals(channel.T, size_px[0], left, right).T
        return _means_over_intervals(rows, size_px[1], top, bottom).astype(np.float32)
    resample = Image.Resampling[filter.upper()]
    return np.asarray(Image.fromarray(channel).resize(size_px, resample, window))


def _means_over_intervals(values: np.ndarray, count: int, start: float, stop: float) -> np.ndarray:
    """Cut a part of the first axis into equal intervals, and take the mean of each.

    A difference of integrals, the values being constant over each element: an interval may begin
    and end inside one. (Pillow's BOX counts elements whole or not at all.)

    Parameters
    ----------
    values : ndarray, shape (n, m)
    count : int
    start, stop : float
        Of the part: 0 and n for all of it.

    Returns
    -------
    ndarray of float64, shape (count, m)
    """
    length = values.shape[0]
    integral = np.zeros((length + 1, values.shape[1]))
    np.cumsum(values, axis=0, dtype=np.float64, out=integral[1:])
    edges = start + np.arange(count + 1) * (stop - start) / count
    whole = np.minimum(edges.astype(np.int64), length - 1)
    at_edges = integral[whole] + (edges - whole)[:, None] * values[whole]
    return np.diff(at_edges, axis=0) * (count / (stop - start))


class Overview:
    """Means over square blocks, added up as the rows come.

    Parameters
    ----------
    width, height, channels : int
        Of the large picture.
    max_megapixels : float
        The blocks are the smallest with which the overview has no more than this many million
        pixels; of one pixel where the picture is that small.
    """

    def __init__(self, width: int, height: int, channels: int, max_megapixels: float) -> None:
        block = max(1, math.isqrt(int(width * height / (1e6 * max_megapixels))))
        while -(-width // block) * -(-height // block) > max(1, 1e6 * max_megapixels):
            block += 1
        self.block_px = block
        self._starts = np.arange(0, width, block)
        self._sums = np.zeros((-(-height // block), len(self._starts), channels), np.float32)
        self._width, self._height, self._rows = width, height, 0

    def add(self, values: np.ndarray) -> None:
        """Take the next rows.

        Parameters
        ----------
        values : ndarray of float32, shape (rows, width, channels)
        """
        sums = np.add.reduceat(values, self._starts, axis=1)
        # one after another, so that how rows are cut into bands makes no difference
        for row in sums:
            self._sums[self._rows // self.block_px] += row
            self._rows += 1

    def values(self) -> np.ndarray:
        """The means, once all rows are there; float32, shape (rows, columns, channels)."""
        wide = np.diff(np.append(self._starts, self._width))
        tops = np.arange(0, self._height, self.block_px)
        high = np.diff(np.append(tops, self._height))
        return self._sums / (high[:, None] * wide).astype(np.float32)[..., None]
