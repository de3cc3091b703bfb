"""Renders of drawings in one ink on transparent paper: alpha is the ink's share of a pixel."""

from typing import NamedTuple, Self

import numpy as np

from neuralfield.images.image import MODES, ImageData
from neuralfield.images.kind import Kind, kind_of
from neuralfield.images.resizing import ink_and_paper
from neuralfield.rendering.levels import to_levels
from neuralfield.system.errors import InputError

_MOST_ASIDE = 0.15
"""Largest distance of all but one in a hundred pixels from the line between the colours of paper
and ink, as a share of its length."""

_EVEN = 0.02
"""Differences from paper and from ink, as shares of their contrast, that are left out: networks do
not fit flat regions exactly."""


class PaperAndInk(NamedTuple):
    """The colours of a drawing's paper and ink, float32 of shape (channels,)."""

    paper: np.ndarray
    ink: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> Self:
        """Find them in a render, float32 of shape (height, width, 1 or 3); raises `InputError`."""
        tones = [ink_and_paper(values[..., channel]) for channel in range(values.shape[2])]
        ink, paper = np.array(tones, np.float32).T
        found = cls(paper, ink)
        kind = kind_of(ImageData.from_values(values, MODES[values.shape[2]], 8))
        aside = values - paper - found._shares(values) * (ink - paper)
        most = _MOST_ASIDE * np.linalg.norm(ink - paper)
        is_one_ink = np.percentile(np.linalg.norm(aside, axis=2), 99) <= most
        if kind not in (Kind.LINE_ART, Kind.GREY_LINES) or not is_one_ink:
            found, expected = "an image without paper, like a photograph", "a drawing in one ink"
            raise InputError("image", found, expected, "render it with its paper")
        return found

    def _shares(self, values: np.ndarray) -> np.ndarray:
        contrast = self.ink - self.paper
        return ((values - self.paper) @ contrast / max(contrast @ contrast, 1e-6))[..., None]

    def transparent(self, bit_depth: int | None, values: np.ndarray) -> np.ndarray:
        """Return values or levels of shape (height, width, 4); alpha is 0 for paper, 1 for ink."""
        alpha = ((self._shares(values) - _EVEN) / (1 - 2 * _EVEN)).clip(0, 1)
        colour = np.broadcast_to(self.ink, (*values.shape[:2], 3))
        shown = np.concatenate([colour, alpha], axis=2, dtype=np.float32)
        return shown if bit_depth is None else to_levels(shown, bit_depth)
