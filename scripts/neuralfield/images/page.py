"""Scanned and photographed pages: turned until lines are level, and cropped to what is on them."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from PIL import Image

from neuralfield.images.image import ImageData, convert_values
from neuralfield.images.resizing import resize_channel
from neuralfield.system.errors import ConfigError, InputError, WrongTypeError

MOST_DEGREES = 45.0
"""Largest angle that can be given."""

_SEARCHED_DEGREES, _COARSE_DEGREES, _FINE_DEGREES = 12.0, 0.25, 0.025
"""Largest angle that is found, and the steps of the search."""

_SIDE_PX, _MOST_POINTS = 1500, 100_000
"""Longer side of the reduced page, and number of its pixels of ink, in which angles are found."""

_WINDOW = np.array([1, 2, 3, 2, 1]) / 9

_LEAST_PEAK = 2.3
"""Least sharpness of the profiles at the angle that is found, as a multiple of the median of all
angles: in pages with lines it is higher, and in drawings without straight lines lower."""

_LEAST_DEGREES = 0.1
"""Smallest angle that is worth the blur of an interpolation."""

_INK = 0.2
"""Least darkness of ink, as a share of the paper's level."""

_BLOCK_PX = 24
"""Side of the blocks in which the paper's level is that of the lightest pixels."""

_DARK, _JUMP = 0.5, 1.8
"""Largest level of what surrounds a page, as a share of the paper's, and least ratio of the levels
on both sides of the page's edge."""

_FEWEST_AROUND = 3
"""Least number of pixels of ink among 5 x 5; fewer are dust."""

_MARGIN, _BORDER = 0.03, 0.01
"""Margin around what is on a page, and of the page beside dark surroundings, as shares of the
longer side."""


class Page(NamedTuple):
    """A page that was turned and cropped."""

    image: ImageData
    degrees: float  # clockwise
    is_cropped: bool

    def __str__(self) -> str:
        direction = "clockwise" if self.degrees > 0 else "counterclockwise"
        turned = f"turned by {abs(self.degrees):.2g} degrees {direction}"
        cropped = f"cropped to {self.image.width} x {self.image.height}"
        found = [turned if self.degrees else "", cropped if self.is_cropped else ""]
        return ", ".join(filter(None, found)) or "neither turned nor cropped"


def find_page(image: ImageData, setting: bool | Mapping[str, bool | float]) -> Page | None:
    """Turn an image of a page until its lines are level, and crop it to what is on it.

    Parameters
    ----------
    setting : bool or mapping
        False: nothing is done, and None is returned. True: both. A mapping has ``deskew``, which is
        true, false or an angle in degrees clockwise, and ``crop``, true or false; both are false
        by default.

    Notes
    -----
    The angle is that at which the profiles of ink along rows and columns have the largest squared
    differences (Postl, "Detection of linear oblique structures and skew scan in digitized
    documents", 1986), of at most 12 degrees. Without lines, the image is not turned.
    """
    deskew, crop = _parts(setting)
    if deskew is False and not crop:
        return None
    if image.mode == "rgba":
        expected = "a page without transparent pixels"
        raise InputError("page", "an image with alpha", expected, "set mode to rgb or grey")
    degrees = skew_degrees(_luma(image)) if deskew is True else float(deskew)
    turned = _turned(image, degrees) if degrees else image
    box = _content(_luma(turned)) if crop else (0, 0, turned.width, turned.height)
    left, top, right, bottom = box
    pixels = np.ascontiguousarray(turned.pixels[top:bottom, left:right])
    cropped = ImageData(pixels, turned.mode, turned.bit_depth)
    return Page(cropped, degrees, box != (0, 0, turned.width, turned.height))


def _parts(setting: bool | Mapping[str, bool | float]) -> tuple[bool | float, bool]:
    """Return the settings ``deskew`` and ``crop``; raise an error for unsupported ones."""
    if isinstance(setting, bool):
        return setting, setting
    if not isinstance(setting, Mapping):
        raise WrongTypeError("page", repr(setting), "true, false, or a mapping of deskew and crop")
    for name in setting:
        if name not in ("deskew", "crop"):
            raise ConfigError(f"page: {name}", "unknown", "deskew or crop")
    deskew, crop = setting.get("deskew", False), setting.get("crop", False)
    if not isinstance(deskew, bool | int | float):
        raise WrongTypeError("page: deskew", repr(deskew), "true, false, or an angle in degrees")
    if not abs(deskew) <= MOST_DEGREES:
        expected = f"from -{MOST_DEGREES:g} to {MOST_DEGREES:g} degrees"
        raise ConfigError("page: deskew", repr(deskew), expected)
    if not isinstance(crop, bool):
        raise WrongTypeError("page: crop", repr(crop), "true or false")
    return deskew, crop


def skew_degrees(luma: np.ndarray) -> float:
    """Return the angle, in degrees clockwise, by which a page has to be turned; 0 if unknown.

    `luma` is float32, shape (height, width).
    """
    ink = _ink(_reduced(luma))
    rows, columns = np.nonzero(ink > 0)
    stride = max(1, len(rows) // _MOST_POINTS)
    rows, columns = rows[::stride], columns[::stride]
    if len(rows) < 100:
        return 0.0
    weights = ink[rows, columns]
    points = np.stack([columns - ink.shape[1] / 2, rows - ink.shape[0] / 2])
    half = math.hypot(*ink.shape) / 2 + 1

    def sharpness(degrees: float) -> float:
        """Return the sum of squared differences in the profiles after turning clockwise."""
        cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
        across = cosine * points[0] - sine * points[1], sine * points[0] + cosine * points[1]
        found = [np.bincount((at + half).astype(np.int64), weights) for at in across]
        # smoothed, because profiles along a grid of pixels are sharpest at 0 degrees
        smooth = [np.convolve(profile, _WINDOW) for profile in found]
        return float(sum((np.diff(profile) ** 2).sum() for profile in smooth))

    angles = np.arange(-_SEARCHED_DEGREES, _SEARCHED_DEGREES + 1e-9, _COARSE_DEGREES)
    scores = [sharpness(angle) for angle in angles]
    middle = float(angles[int(np.argmax(scores))])
    finer = middle + np.arange(-_COARSE_DEGREES, _COARSE_DEGREES + 1e-9, _FINE_DEGREES)
    peaks = [sharpness(angle) for angle in finer]
    if max(peaks) < _LEAST_PEAK * float(np.median(scores)):
        return 0.0
    found = round(float(finer[int(np.argmax(peaks))]), 2)
    return found if abs(found) >= _LEAST_DEGREES else 0.0


def _luma(image: ImageData) -> np.ndarray:
    return convert_values(image.values(), 1)[..., 0]


def _reduced(luma: np.ndarray) -> np.ndarray:
    height, width = luma.shape
    share = min(1.0, _SIDE_PX / max(height, width))
    size_px = max(1, round(share * width)), max(1, round(share * height))
    return resize_channel(luma, size_px, "box") if share < 1 else luma


def _paper(luma: np.ndarray) -> np.ndarray:
    """Return the level of the paper around each pixel: that of the lightest pixels of blocks."""
    height, width = luma.shape
    down, right = -height % _BLOCK_PX, -width % _BLOCK_PX
    padded = np.pad(luma, ((0, down), (0, right)), "edge")
    blocks = padded.reshape(padded.shape[0] // _BLOCK_PX, _BLOCK_PX, -1, _BLOCK_PX)
    levels = np.percentile(blocks, 90, axis=(1, 3)).astype(np.float32)
    enlarged = resize_channel(levels, padded.shape[::-1], "bicubic")
    return np.maximum(enlarged[:height, :width], 1 / 255)


def _ink(luma: np.ndarray) -> np.ndarray:
    """Return how much darker than the paper around it each pixel is, 0 for what is not ink."""
    darkness = 1 - luma / _paper(luma)
    return np.where(darkness > _INK, darkness, 0)


def _turned(image: ImageData, degrees: float) -> ImageData:
    """Turn an image clockwise, with the levels of its paper in the new corners."""
    angle = math.radians(abs(degrees))
    width = math.ceil(image.width * math.cos(angle) + image.height * math.sin(angle))
    height = math.ceil(image.height * math.cos(angle) + image.width * math.sin(angle))
    margin = 2 + math.ceil(math.hypot(image.width, image.height) * math.sin(angle))
    mode, bit_depth = ("grey", 8) if image.mode == "bilevel" else (image.mode, image.bit_depth)
    dtype = np.uint16 if bit_depth == 16 else np.uint8
    turned = np.empty((height, width, image.channels), dtype)
    for channel in range(image.channels):
        levels = image.pixels[..., channel].astype(np.float32) / np.float32(image.max_value)
        canvas = np.pad(_paper(levels), margin, "edge")
        canvas[margin:-margin, margin:-margin] = levels
        rotated = Image.fromarray(canvas).rotate(-degrees, Image.Resampling.BICUBIC)
        top, left = (canvas.shape[0] - height) // 2, (canvas.shape[1] - width) // 2
        values = np.asarray(rotated)[top : top + height, left : left + width]
        turned[..., channel] = np.rint(np.clip(values, 0, 1) * (2**bit_depth - 1))
    return ImageData(turned, mode, bit_depth)


def _content(luma: np.ndarray) -> tuple[int, int, int, int]:
    """Return (left, top, right, bottom) in px of what is on a page, with a margin."""
    small = _reduced(luma)
    least = _DARK * float(np.percentile(small, 80))
    page = [_lit(np.median(small, axis=axis), least) for axis in (0, 1)]
    is_ink = _ink(small)[page[1], page[0]] > 0
    is_ink &= _count_around(is_ink) >= _FEWEST_AROUND
    if not is_ink.any():
        return 0, 0, luma.shape[1], luma.shape[0]
    margin = _MARGIN * max(is_ink.shape)
    first, last = [], []
    for axis, part in enumerate(page):
        places = np.flatnonzero(is_ink.any(axis=axis)) + part.start
        first.append(max(part.start, places[0] - margin))
        last.append(min(part.stop, places[-1] + 1 + margin))
    height, width = luma.shape
    scale = np.array([width / small.shape[1], height / small.shape[0]])
    left, top = np.floor(first * scale).astype(int).tolist()
    right, bottom = np.ceil(last * scale).astype(int).tolist()
    return left, top, min(right, width), min(bottom, height)


def _lit(levels: np.ndarray, least: float) -> slice:
    """Return the rows or columns between dark ones, given the median level of each.

    Shaded paper becomes dark gradually, and is kept.
    """
    border = math.ceil(_BORDER * len(levels))
    first = _end_of_dark(levels, least, border)
    last = _end_of_dark(levels[::-1], least, border)
    return slice(first, max(len(levels) - last, first + 1))


def _end_of_dark(levels: np.ndarray, least: float, border: int) -> int:
    """Return the number of dark rows or columns at the beginning, and a border of the page."""
    first = int(np.argmax(levels >= least))
    outside, inside = levels[max(0, first - border)], levels[min(first + border, len(levels) - 1)]
    return first + border if first and inside >= _JUMP * outside else 0


def _count_around(mask: np.ndarray) -> np.ndarray:
    """Return the number of set pixels in the square of 5 x 5 around each pixel."""
    return sliding_window_view(np.pad(mask, 2).astype(np.uint8), (5, 5)).sum(axis=(2, 3))
