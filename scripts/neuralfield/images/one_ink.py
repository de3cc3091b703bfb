"""Drawings in one ink, of any colour: grey images of them, and the colours of ink and paper."""

from typing import NamedTuple

import numpy as np

from neuralfield.images.degradation import Degradation, paper_and_ink
from neuralfield.images.image import LUMA_WEIGHTS, ImageData
from neuralfield.images.kind import even_colour

_BLOCK_PX = 4
"""Side of the blocks whose mean colours are compared: JPEG has half the resolution for colours."""

_MOST_ASIDE, _BLACK = 0.1, 0.12
"""Largest distance of all but one in a hundred blocks from the line between paper and ink, and
largest difference of the channels of black ink; as shares of the contrast of paper and ink."""

_LEAST_INK, _FEWEST_BLOCKS = 0.5, 8
"""Darkness of the blocks that determine the colour of ink, as a share of that of the darkest ones,
and the least number of blocks in an image."""


_LEAST_DARKNESS = 0.5
"""Least contrast of luma, as a share of that of the paper."""


class OneInk(NamedTuple):
    """A drawing in one ink."""

    values: np.ndarray  # float32, shape (height, width): the grey image; in [0, 1]
    mode: str  # of images with the ink's own colour: "grey", "rgb", or "rgba" with paper alpha 0
    weights: np.ndarray  # of the channels in the grey image, shape (channels,)
    paper: np.ndarray  # the colour of the paper, shape (channels,)
    contrast: np.ndarray  # the direction from ink to paper, shape (channels,)

    @property
    def is_black(self) -> bool:
        """Whether the ink is black or grey."""
        relative = self.contrast / self.paper
        return float(np.ptp(relative)) <= _BLACK * float(relative.max())

    def of_luma(self, luma: np.ndarray) -> "OneInk | None":
        """Return the drawing with the luma of its file instead; None if its ink is as light."""
        darkness = float(LUMA_WEIGHTS @ self.contrast) / float(LUMA_WEIGHTS @ self.paper)
        if darkness < _LEAST_DARKNESS:
            return None
        return self._replace(values=np.clip(luma, 0, 1), weights=LUMA_WEIGHTS)

    def coloured(self, shares: np.ndarray, found: Degradation, *, is_own: bool) -> ImageData:
        """Return the drawing with its own ink and paper, or on white paper, of 8 bits.

        `shares` are 0 where there is ink, and 1 where there is paper. On white paper, grey ink is
        black, and other ink has the colour that it has in relation to the paper.
        """
        if self.mode == "rgba":
            colour = np.broadcast_to(self.paper - self.contrast, (*shares.shape, 3))
            values = np.concatenate([colour, 1 - shares[..., None]], axis=2)
            return ImageData.from_values(values, "rgba", 8)
        paper, ink = self._colours(found)
        if not is_own:
            paper, ink = np.ones_like(paper), ink / paper
            if self.is_black:
                paper, ink = np.ones(1), np.zeros(1)
        values = ink + shares[..., None] * (paper - ink)
        return ImageData.from_values(values, "grey" if len(paper) == 1 else "rgb", 8)

    def in_words(self, found: Degradation) -> str:
        """Return the colours of ink that is not black and of its paper, in words."""
        if self.mode != "rgb" or self.is_black:
            return ""
        paper, ink = (np.rint(255 * c.clip(0, 1)).astype(np.uint8) for c in self._colours(found))
        return f", ink #{bytes(ink).hex()} on paper #{bytes(paper).hex()}"

    def _colours(self, found: Degradation) -> tuple[np.ndarray, np.ndarray]:
        """Return the colours of paper and ink that have the levels that were found."""
        level = float(np.median(found.paper))
        paper = self.paper * level / float(self.weights @ self.paper)
        length = level * (1 - found.ink) / float(self.weights @ self.contrast)
        return paper, np.maximum(paper - self.contrast * length, 0)


def one_ink(image: ImageData) -> OneInk | None:
    """Return a drawing as a grey image; None if it has several inks, or is bilevel."""
    values = image.values()
    one = np.ones(1)
    if image.mode == "grey":
        return OneInk(values[..., 0], "grey", one, one, one)
    if image.mode == "rgba":
        colour = even_colour(values)
        return None if colour is None else _of_alpha(values, colour)
    return None if image.mode == "bilevel" else _of_colours(values)


def _of_alpha(values: np.ndarray, colour: np.ndarray) -> OneInk:
    return OneInk(1 - values[..., 3], "rgba", np.ones(3) / 3, np.ones(3), 1 - colour)


def _of_colours(values: np.ndarray) -> OneInk | None:
    """Return a drawing in ink of any colour, projected on the line between paper and ink."""
    luma = values @ LUMA_WEIGHTS
    paper = np.median(values[luma >= np.percentile(luma, 80)], axis=0)
    shade, _ = paper_and_ink(luma)
    shaded = np.maximum(paper * (shade / np.median(shade))[..., None], 0.05)
    darkness = _block_means(1 - values / shaded).reshape(-1, 3)
    dark = np.linalg.norm(darkness, axis=1)
    if len(dark) < _FEWEST_BLOCKS:
        return None
    inked = darkness[dark >= _LEAST_INK * np.percentile(dark, 99)]
    axis = inked.mean(axis=0)
    if not axis.any():
        return None
    axis /= np.linalg.norm(axis)
    aside = np.linalg.norm(darkness - (darkness @ axis)[:, None] * axis, axis=1)
    if np.percentile(aside, 99) > _MOST_ASIDE * np.percentile(dark, 99):
        return None
    found = OneInk(luma, "rgb", LUMA_WEIGHTS, np.maximum(paper, 0.05), paper * axis)
    if found.is_black:
        return found
    weights = np.maximum(axis, 0) / np.maximum(axis, 0).sum()
    return found._replace(values=values @ weights.astype(np.float32), weights=weights)


def _block_means(values: np.ndarray) -> np.ndarray:
    height, width = (side - side % _BLOCK_PX for side in values.shape[:2])
    blocks = values[:height, :width].reshape(height // _BLOCK_PX, _BLOCK_PX, -1, _BLOCK_PX, 3)
    return blocks.mean(axis=(1, 3))
