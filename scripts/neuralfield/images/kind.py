"""Tell line art, grey lines, pages of mixed kind and photographs from each other.

Line art has a paper, a tone that many pixels have and that edges begin at, and away from edges
there is hardly any other tone but that of the ink. Where paper or ink is grey, or lines are so thin
that they are grey, the lines are grey ones. A page with a drawing and a photograph has a paper and
an ink, and other tones too. In a photograph no tone is frequent and at most edges.
"""

from enum import StrEnum
from functools import reduce
from typing import NamedTuple, Self

import numpy as np

from neuralfield.images.image import LUMA_WEIGHTS, ImageData

_LEVELS = 255
_OPAQUE = 0.9

_TONE_LEVELS = 8
"""Levels of 255 up to which tones count as the same: a scan's paper varies by some."""

_REACH_PX, _EDGE_LEVELS = 2, 48
"""There is an edge where levels differ by so much, so many pixels before and behind."""

_FEWEST_EDGES = 0.02
"""Least share of edges: the surface of the moon has a frequent tone, and hardly any edges."""

_MIXED_AGREEMENT, _MIXED_ON_DARK, _LINE_ART_AGREEMENT = 0.12, 0.25, 0.3
"""Least share of the paper among all pixels, times its share at edges. In photographs it is 0.07 at
most, or 0.18 where much is black; in pages of mixed kind it is 0.18 and more, and in drawings 0.40
and more (``docs/images.md``)."""

_MOST_OTHER_TONES = 0.03
"""Largest share of tones besides paper and ink in line art. Drawings have 0.01 at most, and pages
of mixed kind 0.10 and more."""

_LIGHT = 128
"""Least level of a light paper. A darker one may be the night sky."""

_NEAR = 26
"""Levels up to which a tone counts as black or white: a scan's ink and paper do."""

_LEAST_SHARE, _LEAST_OF_EACH = 0.65, 0.01
"""Least share of black and white together in line art, and of each."""


class Kind(StrEnum):
    """The kind of an image, on which settings that are ``auto`` depend."""

    LINE_ART = "line_art"
    GREY_LINES = "grey_lines"
    MIXED = "mixed"
    PHOTOGRAPH = "photograph"


class ToneCount:
    """Counts of an image's tones, of those beside edges and of those away from edges.

    The image may come in bands of rows: at the seam of two, an edge may be missed.
    """

    def __init__(self) -> None:
        self._pixels = self._edges = 0
        self._tones, self._beside_edges, self._away = np.zeros((3, _LEVELS + 1), np.int64)

    def see(self, band: ImageData) -> Self:
        """Count the pixels of a band or a whole image; returns itself."""
        tones, is_opaque = _tones(band)
        self._pixels += tones.size
        self._tones += _histogram(tones[is_opaque])
        is_away = is_opaque
        for axis in (0, 1):
            lowest, highest = _surroundings(tones, axis)
            is_edge = highest - lowest >= _EDGE_LEVELS
            self._edges += int(is_edge.sum())
            self._beside_edges += _histogram(lowest[is_edge]) + _histogram(highest[is_edge])
            is_away = is_away & ~is_edge
        self._away += _histogram(tones[is_away])
        return self

    def add(self, other: "ToneCount") -> None:
        """Add the counts of other bands."""
        self._pixels += other._pixels
        self._edges += other._edges
        self._tones += other._tones
        self._beside_edges += other._beside_edges
        self._away += other._away

    @property
    def tones(self) -> "Tones":
        """The shares that the counts amount to, and the paper."""
        edges = self._edges / (2 * self._pixels)
        agreements = _near(self._tones) * _near(self._beside_edges)
        paper = _around(agreements)
        others = self._away.copy()
        others[paper] = 0
        others[_around(_near(others))] = 0
        return Tones(
            paper=(paper.start + paper.stop - 1) // 2,
            agreement=int(agreements.max()) / (self._pixels * max(self._edges, 1)),
            edges=edges,
            others=int(others.sum()) / self._pixels,
            black=int(self._tones[: _NEAR + 1].sum()) / self._pixels,
            white=int(self._tones[-_NEAR - 1 :].sum()) / self._pixels,
        )

    @property
    def kind(self) -> Kind:
        return self.tones.kind


class Tones(NamedTuple):
    """The tones of an image: shares of its pixels, and its paper."""

    paper: int  # the level of 255 whose agreement with the edges is the largest
    agreement: float  # the share of this tone, times its share at edges
    edges: float
    others: float  # other tones than paper and ink, away from edges
    black: float
    white: float

    @property
    def kind(self) -> Kind:
        is_light = self.paper >= _LIGHT
        least = _MIXED_AGREEMENT if is_light else _MIXED_ON_DARK
        if self.edges < _FEWEST_EDGES or self.agreement < least:
            return Kind.PHOTOGRAPH
        is_two_toned = self.others <= _MOST_OTHER_TONES and self.agreement >= _LINE_ART_AGREEMENT
        fewest, together = min(self.black, self.white), self.black + self.white
        if is_two_toned and together >= _LEAST_SHARE and fewest >= _LEAST_OF_EACH:
            return Kind.LINE_ART
        return Kind.GREY_LINES if is_two_toned and is_light else Kind.MIXED


def kind_of(image: ImageData) -> Kind:
    """Return the kind of an image; see `ToneCount`."""
    return ToneCount().see(image).kind


def _tones(image: ImageData) -> tuple[np.ndarray, np.ndarray]:
    """Return the luma in levels of 255, and where it can be seen; both of shape (height, width)."""
    values = image.values()
    luma = values[..., 0] if image.channels == 1 else values[..., :3] @ LUMA_WEIGHTS
    tones = np.round(_LEVELS * luma).astype(np.int16)
    if image.mode != "rgba":
        return tones, np.ones(tones.shape, bool)
    is_opaque = values[..., 3] >= _OPAQUE
    tones[~is_opaque] = _LEVELS
    return tones, is_opaque


def _surroundings(tones: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and highest tone up to `_REACH_PX` pixels away along an axis."""
    margin = [(_REACH_PX, _REACH_PX) if axis == a else (0, 0) for a in range(2)]
    padded, length = np.pad(tones, margin, "edge"), tones.shape[axis]
    starts = range(2 * _REACH_PX + 1)
    around = [
        padded[start : start + length] if axis == 0 else padded[:, start : start + length]
        for start in starts
    ]
    return reduce(np.minimum, around), reduce(np.maximum, around)


def _histogram(tones: np.ndarray) -> np.ndarray:
    return np.bincount(tones, minlength=_LEVELS + 1)


def _near(histogram: np.ndarray) -> np.ndarray:
    """Return how many pixels are near each tone, but the outermost `_TONE_LEVELS`."""
    return np.convolve(histogram, np.ones(2 * _TONE_LEVELS + 1, np.int64), "valid")


def _around(counts: np.ndarray) -> slice:
    """Return the tones near that one which has the largest of `_near`'s counts."""
    first = int(np.argmax(counts))
    return slice(first, first + 2 * _TONE_LEVELS + 1)
