"""Resizing of images."""

import math
from collections.abc import Sequence

import numpy as np
from PIL import Image

from neuralfield.images.image import (
    CHANNELS,
    ImageData,
    convert_values,
    require_mode,
    target_size,
)
from neuralfield.system.errors import ConfigError

FILTERS = ("box", "lanczos", "bicubic", "back_projection", "two_tone")

BACK_PROJECTIONS = 3
"""Number of rounds of back-projection; more rounds improve little and add ringing."""

_CONTRAST = 3
"""Gain of ``two_tone``: the best on average for drawings that were compressed, blurred or
scanned, and enlarged 5 times."""


def resize_image(
    image: ImageData,
    size: int | Sequence[int] | None,
    filter: str = "box",
    threshold: float = 0.5,
    *,
    mode: str = "auto",
) -> ImageData:
    """Resize an image in float32; its bit depth is kept.

    The `size` is the longer side in px, where the other side follows from the aspect ratio, or
    (width, height), or None to keep the size. To avoid aliasing, the `filter`, one of `FILTERS`, is
    scaled with the reduction. ``box`` computes the exact mean over the square of every new pixel,
    where pixels on the boundary of the square are weighted by the part inside it; when it enlarges,
    it repeats pixels. ``back_projection`` is ``lanczos``, corrected by `back_projected`, and
    ``two_tone``, for drawings, is that with a threefold contrast between ink and paper.

    The `mode` ``auto`` keeps the mode of the image, except that a resized bilevel image becomes
    8-bit grey, because the means represent the positions of edges within pixels. For ``bilevel``,
    luma of at least `threshold` becomes white after resizing. Raises `ConfigError` for an invalid
    size, filter or mode.

    Colour is multiplied by alpha for resizing, so that the colour of transparent pixels does not
    bleed into visible pixels. Fully transparent pixels become black.
    """
    if filter not in FILTERS:
        raise ConfigError("filter", repr(filter), f"one of {', '.join(FILTERS)}")
    require_mode(mode, "auto")
    own_size = (image.width, image.height)
    size_px = target_size(own_size, size)
    if size_px == own_size:
        return image if mode == "auto" else image.converted(mode, threshold)
    if mode == "auto":
        mode = "grey" if image.mode == "bilevel" else image.mode
    values = np.clip(_resized_values(image, size_px, filter), 0, 1)
    bit_depth = 1 if mode == "bilevel" else max(image.bit_depth, 8)
    return ImageData.from_values(convert_values(values, CHANNELS[mode]), mode, bit_depth, threshold)


def _resized_values(image: ImageData, size_px: tuple[int, int], filter: str) -> np.ndarray:
    """Resize each channel; return float32, shape (height, width, channels), not clipped."""

    def resized(channel: np.ndarray) -> np.ndarray:
        if filter in ("back_projection", "two_tone"):
            enlarged = back_projected(resize_channel(channel, size_px, "lanczos"), channel)
            return two_toned(enlarged, channel) if filter == "two_tone" else enlarged
        return resize_channel(channel, size_px, filter)

    def light(index: int) -> np.ndarray:
        return image.pixels[..., index].astype(np.float32) / np.float32(image.max_value)

    if image.mode != "rgba":
        return np.stack([resized(light(index)) for index in range(image.channels)], axis=2)
    alpha = light(3)
    visible = np.clip(resized(alpha), 0, 1)
    colours = [resized(light(index) * alpha) for index in range(3)]
    seen = visible > 0
    colours = [np.divide(c, visible, out=np.zeros_like(c), where=seen) for c in colours]
    return np.stack([*colours, visible], axis=2)


def resize_channel(channel: np.ndarray, size_px: tuple[int, int], filter: str) -> np.ndarray:
    """Resize one float32 channel, shape (height, width); not clipped.

    For the filters see `resize_image`.
    """
    if filter == "box":
        rows = _means_over_intervals(channel.T, size_px[0]).T
        return _means_over_intervals(rows, size_px[1]).astype(np.float32)
    resample = Image.Resampling[filter.upper()]
    return np.asarray(Image.fromarray(channel).resize(size_px, resample))


def back_projected(
    enlarged: np.ndarray, channel: np.ndarray, rounds: int = BACK_PROJECTIONS
) -> np.ndarray:
    """Correct an enlarged channel so that the box filter reduces it to the original channel.

    Each round reduces the result, enlarges the difference from the original with Lanczos, and adds
    it (Irani & Peleg, "Improving resolution by image registration", 1991). Both arrays are float32,
    shape (height, width); the result is not clipped.
    """
    size_px = (enlarged.shape[1], enlarged.shape[0])
    for _ in range(rounds):
        missing = channel - resize_channel(enlarged, (channel.shape[1], channel.shape[0]), "box")
        enlarged = enlarged + resize_channel(missing, size_px, "lanczos")
    return enlarged


def two_toned(enlarged: np.ndarray, channel: np.ndarray) -> np.ndarray:
    """Increase the contrast of an enlarged channel around the middle of its ink and its paper."""
    ink, paper = ink_and_paper(channel)
    stretched = (enlarged - (ink + paper) / 2) * _CONTRAST + (ink + paper) / 2
    return np.clip(stretched, min(ink, paper), max(ink, paper)).astype(np.float32)


def ink_and_paper(channel: np.ndarray) -> tuple[float, float]:
    """Return the most frequent level of a channel and the level furthest from it, paper last."""
    levels = np.rint(255 * channel.clip(0, 1)).astype(np.int64).ravel()
    counts = np.bincount(levels, minlength=256)
    first = max(0, int(np.convolve(counts, np.ones(9), "same").argmax()) - 4)
    paper = (first + int(counts[first : first + 9].argmax())) / 255
    ends = np.percentile(channel, (0.5, 99.5))
    return float(ends[np.abs(ends - paper).argmax()]), paper


def _means_over_intervals(values: np.ndarray, count: int) -> np.ndarray:
    """Divide the first axis into `count` equal intervals, and compute the mean of each.

    The means are differences of the integral of a function that is constant over each element, so
    that an interval may begin and end inside an element. (Pillow's BOX filter includes only whole
    elements.) Shape (n, m) becomes float64 of shape (count, m).
    """
    length = values.shape[0]
    integral = np.zeros((length + 1, values.shape[1]))
    np.cumsum(values, axis=0, dtype=np.float64, out=integral[1:])
    edges = np.arange(count + 1) * length / count
    whole = np.minimum(edges.astype(np.int64), length - 1)
    at_edges = integral[whole] + (edges - whole)[:, None] * values[whole]
    return np.diff(at_edges, axis=0) * (count / length)


class Overview:
    """A reduced version of a large image that is given in bands.

    Its pixels are means over square blocks; the blocks are the smallest for which it has at most
    `max_megapixels` million pixels.
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
        """Add the next rows; float32, shape (rows, width, channels)."""
        sums = np.add.reduceat(values, self._starts, axis=1)
        # added row by row, so that rounding does not depend on the bands
        for row in sums:
            self._sums[self._rows // self.block_px] += row
            self._rows += 1

    def picture(self, mode: str) -> ImageData:
        """Return the means as an 8-bit image, after all rows were added.

        `mode` is the mode of the large image.
        """
        return ImageData.from_values(self.values(), "grey" if mode == "bilevel" else mode, 8)

    def values(self) -> np.ndarray:
        """Return the means after all rows were added; float32, shape (rows, columns, channels)."""
        wide = np.diff(np.append(self._starts, self._width))
        tops = np.arange(0, self._height, self.block_px)
        high = np.diff(np.append(tops, self._height))
        return self._sums / (high[:, None] * wide).astype(np.float32)[..., None]
