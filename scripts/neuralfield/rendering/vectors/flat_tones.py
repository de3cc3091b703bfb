"""The flat tones of a drawing, and the layers that are drawn on top of each other.

The layer of a tone covers the regions of this tone and reaches below those of all further ones, so
that there are no gaps between layers. Between two tones an image passes through others, which may
be tones of the drawing, too: such slivers are recognised by their width, and belong to the tones
beside them.
"""

from collections.abc import Iterator
from itertools import combinations

import numpy as np
from PIL import Image, ImageFilter

from neuralfield.images.resizing import resize_channel

_MOST_TONES = 12

_FLAT, _FLAT_PX = 0.08, 2
"""Maximum difference, in any channel, of pixels of the render at this distance in flat regions."""

_NEAR = 0.08
"""Maximum difference of colours that belong to one tone."""

_LEAST_SHARE = 0.003
"""Minimum share of a tone among all pixels."""

_HALO, _LEAST_OF_NEIGHBOUR = 0.2, 0.2
"""A tone that differs from a more frequent one by at most `_HALO` is a halo of it, as JPEG makes
them, unless it has at least `_LEAST_OF_NEIGHBOUR` of its pixels."""

_LEAST_CONTRAST = 0.15
"""Minimum difference between paper and ink."""

_EVEN, _LEAST_EVEN = 0.03, 0.7
"""Minimum share of flat pixels in a drawing that differ by at most `_EVEN` from a tone."""

_PURE = 0.03
"""Maximum difference from black or white of a value that is written as such."""

_SLIVER_PX, _REACH_PX = 0.8, 1.2
"""Maximum width of a sliver between two tones, and maximum distance of an edge from its tones."""

_OVERLAP_PX = 0.5
"""Distance by which a layer reaches below further ones."""

_BESIDE = 0.35
"""Maximum distance of a tone from the line between two others whose edges may have it."""

_AHEAD, _BEHIND = slice(_FLAT_PX, None), slice(None, -_FLAT_PX)

_LEAST_SLOPE = 0.25
"""Minimum slope at edges, in a training pixel, as a share of the contrast of paper and ink."""

_MATCHES, _STEP, _FARTHEST = 10, 0.5, 0.4
"""Number of corrections of the level of a border, factor on each, and their maximum in sharp
renders. In blurred ones, the mean of a pixel does not say how much of it is ink."""


def flat_tones(render: np.ndarray, per_pixel: int, *, only_two: bool) -> np.ndarray | None:
    """Return the paper and the inks, in order of contrast; None if the render has no flat tones.

    Parameters
    ----------
    render : ndarray of float32, shape (height, width, channels)
        With `per_pixel` pixels along a side of a training pixel.
    only_two : bool
        Whether there is one ink, whose lines may be too thin to be flat.

    Returns
    -------
    ndarray of float64, shape (tones, channels), or None
    """
    flat = render[_is_flat(render)].astype(np.float64)
    tones, rest, least = [], flat, max(1.0, _LEAST_SHARE * render[..., 0].size)
    while len(rest) >= least and len(tones) <= _MOST_TONES:
        bins, counts = np.unique(np.rint(rest / _NEAR), axis=0, return_counts=True)
        tone, is_near = bins[counts.argmax()] * _NEAR, np.zeros(len(rest), bool)
        for _ in range(3):  # towards the most frequent colours
            is_near = np.abs(rest - tone).max(axis=1) <= _NEAR
            tone = rest[is_near].mean(axis=0) if is_near.any() else tone
        if is_near.sum() < least:
            break
        rest = rest[~is_near]
        if not any(
            np.abs(tone - other).max() <= _HALO and is_near.sum() < _LEAST_OF_NEIGHBOUR * count
            for other, count in tones
        ):
            tones.append((tone, is_near.sum()))
    even = sum((np.abs(flat - tone).max(axis=1) <= _EVEN).sum() for tone, _ in tones)
    is_drawing = len(tones) <= _MOST_TONES and even >= _LEAST_EVEN * len(flat)
    if not tones or not (is_drawing or only_two):
        return None
    paper, *inks = (tone for tone, _ in tones)
    inks = sorted(inks, key=lambda tone: float(np.abs(tone - paper).sum()))
    if only_two:
        away = np.abs(render - paper).max(axis=2)
        farthest = render[away >= np.quantile(away, 1 - _LEAST_SHARE)].mean(axis=0)
        inks = (inks or [farthest])[-1:]
    inks = [ink for ink in inks if np.abs(ink - paper).max() >= _LEAST_CONTRAST]
    if len(inks) > 1:
        along = inks[-1] - paper
        share = ((render - paper) * along).sum(axis=2) / (along**2).sum()
        # in a blurred render, the tones of edges cannot be told from those of regions
        inks = inks if _sharpness(share, per_pixel) > 0 else inks[-1:]
    found = np.array([paper, *inks])
    return np.where(found < _PURE, 0.0, np.where(found > 1 - _PURE, 1.0, found))


def _is_flat(render: np.ndarray) -> np.ndarray:
    flat = np.ones(render.shape[:2], bool)
    for axis in (0, 1):
        one, two = (np.moveaxis(render, axis, 0)[part] for part in (_AHEAD, _BEHIND))
        is_even = (np.abs(one - two) <= _FLAT).all(axis=2)
        along = np.moveaxis(flat, axis, 0)
        along[_AHEAD] &= is_even
        along[_BEHIND] &= is_even
    return flat


def layers(render: np.ndarray, tones: np.ndarray, per_pixel: int) -> Iterator[np.ndarray]:
    """Yield a function for each tone but the paper, which is positive in the layer of the tone.

    Each has the shape (height, width) of the render, which has `per_pixel` pixels along a side of a
    training pixel. The function is 0 half-way between the tones beside a border, except that the
    level is moved a little until the area of the layer in each training pixel agrees with the mean
    of the render: thin lines keep their widths, and dots their sizes.
    """
    smooth = _smoothed(render)
    labels = _labels(smooth, tones, per_pixel)
    reach = round(_REACH_PX * per_pixel) if len(tones) > 2 else 0  # else there is one border
    nearest = _spread(labels, reach)
    for number in range(1, len(tones)):
        outside = _spread(np.where(labels <= number, labels, 0), reach)
        inside = _spread(np.where(labels > number, labels, 0), reach)
        one = tones[np.where(outside, outside - 1, 0)]
        along = tones[np.where(inside, inside - 1, number)] - one
        share = ((smooth - one) * along).sum(axis=2) / (along**2).sum(axis=2)
        layer = share - _matched_level(share, per_pixel)
        if number < len(tones) - 1:
            near = _dilated(nearest == number + 1, round(_OVERLAP_PX * per_pixel))
            layer[(nearest > number + 1) & ~near] = -1
        yield layer


def _smoothed(render: np.ndarray) -> np.ndarray:
    """Average neighbouring pixels with the weights 1/4, 1/2, 1/4 along both axes."""
    for axis in (0, 1):
        wide = np.pad(render, [(1, 1) if a == axis else (0, 0) for a in range(3)], "edge")
        before, after = np.split(wide, [2], axis)[1], np.split(wide, [-2], axis)[0]
        render = (before + 2 * render + after) / 4
    return render


def _labels(render: np.ndarray, tones: np.ndarray, per_pixel: int) -> np.ndarray:
    """Return one more than the number of the tone of each pixel; 0 in slivers."""
    distances = [((render - tone) ** 2).sum(axis=2) for tone in tones]
    labels = (1 + np.argmin(distances, axis=0)).astype(np.uint8)
    radius = round(_SLIVER_PX * per_pixel / 2)
    found = labels.copy()
    for number, tone in enumerate(tones, 1):
        own = labels == number
        thin = own & ~_dilated(~_dilated(~own, radius), radius)
        for one, two in combinations(set(range(1, len(tones) + 1)) - {number}, 2):
            if _is_between(tone, tones[one - 1], tones[two - 1]):
                both = _dilated(labels == one, radius) & _dilated(labels == two, radius)
                found[thin & _dilated(both, radius)] = 0
    return found


def _is_between(tone: np.ndarray, one: np.ndarray, two: np.ndarray) -> bool:
    along = two - one
    share = float((tone - one) @ along / (along @ along))
    return 0 < share < 1 and float(np.linalg.norm(one + share * along - tone)) <= _BESIDE


def _dilated(mask: np.ndarray, radius: int) -> np.ndarray:
    wide = Image.fromarray(mask.astype(np.uint8)).filter(ImageFilter.MaxFilter(2 * radius + 1))
    return np.asarray(wide) > 0


def _spread(labels: np.ndarray, distance: int) -> np.ndarray:
    """Give pixels without a label, 0, one that is near, up to a distance in pixels."""
    for _ in range(distance):
        wide = Image.fromarray(labels).filter(ImageFilter.MaxFilter(3))
        labels = np.where(labels, labels, np.asarray(wide))
    return labels


def _sharpness(share: np.ndarray, per_pixel: int) -> float:
    """Return how sharp edges between 0 and 1 are: 0 if blurred over a pixel or more, at most 1."""
    slope = per_pixel * np.hypot(*np.gradient(share))
    steep = slope[slope > _LEAST_SLOPE]
    return float(np.clip(np.quantile(steep, 0.9) - 1, 0, 1)) if steep.size else 0.0


def _matched_level(share: np.ndarray, per_pixel: int) -> np.ndarray:
    """Return the level above which `share` covers as much of each training pixel as its mean."""
    height, width = share.shape
    share = share.clip(0, 1)
    farthest = _FARTHEST * _sharpness(share, per_pixel)
    steep = np.maximum(np.hypot(*np.gradient(share)) + 0.02, 0.05)
    level = np.full(share.shape, 0.5)
    for _ in range(_MATCHES if farthest else 0):
        surplus = ((share - level) / steep + 0.5).clip(0, 1) - share
        size = width // per_pixel, height // per_pixel
        means = resize_channel(surplus.astype(np.float32), size, "box")
        level += _STEP * resize_channel(means, (width, height), "bilinear")
        level = level.clip(0.5 - farthest, 0.5 + farthest)
    return level
