"""What kind of picture it is, as far as that decides how a network is best taught it."""

import numpy as np

from neuralfield.images.image import Picture

_NEAR = 0.1
"""Of black or white, so that a scan's paper and ink count too."""

_LEAST_SHARE, _LEAST_OF_EACH = 0.65, 0.01
"""Of black and white together, and of each."""


class ToneCount:
    """How many pixels of a picture are black, and how many white; it may come in bands."""

    def __init__(self) -> None:
        self._black = self._white = self._pixels = 0

    def see(self, band: Picture) -> Picture:
        """Count the pixels of a band, or of all of a picture; returns it."""
        values = band.values()
        opaque = np.True_
        if band.mode == "rgba":
            values, opaque = values[..., :3], values[..., 3] >= 1 - _NEAR
        self._black += int(((values <= _NEAR).all(axis=-1) & opaque).sum())
        self._white += int(((values >= 1 - _NEAR).all(axis=-1) & opaque).sum())
        self._pixels += band.width * band.height
        return band

    @property
    def is_line_art(self) -> bool:
        """Whether nearly everything is black or white, and greys are mere edges.

        Drawings made of thin lines have two thirds of their pixels near black or white even at 100
        pixels, and ever more at larger sizes. Photographs with a bright sky have less of both, and
        those taken at night hardly any white.
        """
        together, fewest = self._black + self._white, min(self._black, self._white)
        return together >= _LEAST_SHARE * self._pixels and fewest >= _LEAST_OF_EACH * self._pixels


def is_line_art(picture: Picture) -> bool:
    """Whether a picture is; see `ToneCount`."""
    tones = ToneCount()
    tones.see(picture)
    return tones.is_line_art
