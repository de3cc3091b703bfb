"""Classification of images into line art, grey lines, pages of mixed kind and photographs.

Line art has a paper: a tone that many pixels have and that is found beside most edges. Away from
edges, it has hardly any tones other than those of paper and ink. Its kind is grey lines if the
paper or the ink is grey, or if the lines are so thin that they are grey. A page with a drawing and
a photograph has a paper and an ink, but also other tones. In a photograph, no tone is both frequent
and found beside most edges.
"""

from enum import StrEnum
from typing import NamedTuple, Self

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from neuralfield.images.image import LUMA_WEIGHTS, ImageData

_LEVELS = 255
_OPAQUE = 0.9

_TONE_LEVELS = 8
"""Maximum difference, in levels of 255, of tones that count as equal: the paper of scans varies."""

_REACH_PX, _EDGE_LEVELS = 2, 48
"""A pixel is at an edge if the levels up to `_REACH_PX` pixels before and behind it differ by at
least `_EDGE_LEVELS`."""

_FEWEST_EDGES = 0.02
"""Minimum share of edges in drawings. A photograph of the moon's surface has a frequent tone, but
hardly any edges."""

_MIXED_AGREEMENT, _MIXED_ON_DARK, _LINE_ART_AGREEMENT = 0.12, 0.25, 0.3
"""Minimum product of the paper's share of all pixels and its share of tones at edges, for pages of
mixed kind on light and on dark paper, and for line art. It is at most 0.07 in photographs, or 0.18
if they are largely black, at least 0.18 in pages of mixed kind, and at least 0.40 in drawings
(``docs/images.md``)."""

_MOST_OTHER_TONES = 0.03
"""Maximum share of tones other than paper and ink in line art. It is at most 0.01 in drawings, and
at least 0.10 in pages of mixed kind."""

_LIGHT = 128
"""Minimum level of a light paper. A darker tone may be the night sky in a photograph."""

_NEAR = 26
"""Maximum difference from black or white of tones that count as such, like the ink of scans."""

_LEAST_SHARE, _LEAST_OF_EACH = 0.65, 0.01
"""Minimum share of black and white together in line art, and minimum share of each."""

_VISIBLE, _EVEN = 0.2, 0.02
"""Least alpha of pixels whose colour is compared, and largest difference of equal colours."""


class Kind(StrEnum):
    """The kind of an image; it determines settings that are ``auto``."""

    LINE_ART = "line_art"
    GREY_LINES = "grey_lines"
    MIXED = "mixed"
    PHOTOGRAPH = "photograph"


class ToneCount:
    """Histograms of an image's tones: of all, of those beside edges and of those away from edges.

    The image may be given in bands of rows; edges at the seam of two bands may then be missed.
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
        """The paper and the shares of tones, computed from the counts."""
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

    paper: int  # the tone with the largest agreement, as a level of 255
    agreement: float  # share of this tone among all pixels, times its share at edges
    edges: float
    others: float  # tones other than paper and ink, away from edges
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


def even_colour(values: np.ndarray) -> np.ndarray | None:
    """Return the colour of all visible pixels of an RGBA image; None if they differ in colour.

    Values are float32, shape (height, width, 4).
    """
    colours = values[values[..., 3] >= _VISIBLE, :3]
    is_even = len(colours) > 0 and float(np.ptp(colours, axis=0).max()) <= _EVEN
    return np.median(colours, axis=0) if is_even else None


def _tones(image: ImageData) -> tuple[np.ndarray, np.ndarray]:
    """Return luma in levels of 255, and which pixels are opaque; both of shape (height, width)."""
    values = image.values()
    luma = values[..., 0] if image.channels == 1 else values[..., :3] @ LUMA_WEIGHTS
    tones = np.round(_LEVELS * luma).astype(np.int16)
    if image.mode != "rgba":
        return tones, np.ones(tones.shape, bool)
    is_opaque = values[..., 3] >= _OPAQUE
    if even_colour(values) is not None:  # ink on transparent paper: alpha says where it is
        return np.round(_LEVELS * (1 - values[..., 3])).astype(np.int16), np.ones_like(is_opaque)
    tones[~is_opaque] = _LEVELS
    return tones, is_opaque


def _surroundings(tones: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and highest tone up to `_REACH_PX` pixels away along an axis."""
    margin = [(_REACH_PX, _REACH_PX) if axis == a else (0, 0) for a in range(2)]
    windows = sliding_window_view(np.pad(tones, margin, "edge"), 2 * _REACH_PX + 1, axis)
    around = np.moveaxis(windows, -1, 0)  # 20 times as fast as to reduce the last axis
    return around.min(axis=0), around.max(axis=0)


def _histogram(tones: np.ndarray) -> np.ndarray:
    return np.bincount(tones, minlength=_LEVELS + 1)


def _near(histogram: np.ndarray) -> np.ndarray:
    """Return the number of pixels near each tone, without the outermost `_TONE_LEVELS` tones."""
    return np.convolve(histogram, np.ones(2 * _TONE_LEVELS + 1, np.int64), "valid")


def _around(counts: np.ndarray) -> slice:
    """Return the slice of tones near the tone with the largest count of `_near`."""
    first = int(np.argmax(counts))
    return slice(first, first + 2 * _TONE_LEVELS + 1)
