"""The sheet that a drawing of a set is drawn on, with the set's numbers, words and fonts."""

from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import matplotlib
import numpy as np

from measuring.line_drawings import Curve, Paper

_T = TypeVar("_T")
_TRAINING_SIDE_PX = 200
_BOLD = 1.9
"""Factor on the widths of lines, letters and gaps in comparison with the fine sets."""

_FONTS = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
_WORDS = {
    "a": "The quick brown fox jumps over the lazy dog while seven wizards mix black quartz potions",
    "b": "Sphinx of hard marble judge my vow and pack five dozen jugs with old liquor before noon",
    "c": "Amazingly few discotheques provide jukeboxes as brave exiled monks quietly knit caps",
    "d": "Grumpy wizards make a toxic brew for the jovial queen while five boxing vandals hack",
    "e": "Two driven jocks help fax my big quiz while heavy boxes perform quick waltzes and jigs",
}
_PLACES = {
    "a": ("Alden", "Brook", "Corvey", "Dale"),
    "b": ("Ystad", "Westry", "Vinje", "Ulm"),
    "c": ("Ghent", "Zwolle", "Kotka", "Pinsk"),
    "d": ("Nidda", "Ebro", "Tarbes", "Ljuba"),
    "e": ("Orsk", "Jaca", "Velden", "Skien"),
}
_FONT_PAIRS = {
    "a": ("DejaVuSerif.ttf", "DejaVuSans-Bold.ttf"),
    "b": ("STIXGeneral.ttf", "DejaVuSerif-Bold.ttf"),
    "c": ("DejaVuSans.ttf", "STIXGeneralBol.ttf"),
    "d": ("DejaVuSerif-Italic.ttf", "DejaVuSansMono-Bold.ttf"),
    "e": ("STIXGeneralItalic.ttf", "DejaVuSans-BoldOblique.ttf"),
}


class Sheet:
    """A sheet that a drawing of a set is drawn on, with the random numbers of the set."""

    def __init__(self, name: str, kind: str, side_px: int) -> None:
        self.paper, self._taken = Paper(side_px), 0
        self.letter = letter = name[0]
        self.random = np.random.default_rng([ord(letter), *kind.encode()])
        # lines of contours are a third of a training pixel wide in every set
        is_fine = name.endswith("_fine") or kind == "contours"
        self.scale = 1.0 if is_fine else _BOLD
        self.px = self.scale / _TRAINING_SIDE_PX
        self.weight = self.of(1.0, 1.25, 1.12)
        self.words = _WORDS[letter].split()
        self.places = _PLACES[letter]

    @property
    def fonts(self) -> tuple[str, str]:
        """The fonts of running text and of titles."""
        return _FONT_PAIRS[self.letter]

    def of(self, a: _T, b: _T, c: _T) -> _T:
        """Return the parameter of this set; sets d and e take those of the others in turn."""
        self._taken += 1
        d, e = ((a, b, c)[at % 3] for at in (self._taken, 2 * self._taken + 1))
        return {"a": a, "b": b, "c": c, "d": d, "e": e}[self.letter]

    def line(self, *points: tuple[float, float], wide: float) -> None:
        """Draw straight lines, `wide` training pixels wide."""
        for start, end in pairwise(points):
            self.paper.stroke(np.linspace(start, end, 3), wide * self.px, tapered=False)

    def curve(self, curve: Curve, wide: float, *, tapered: bool = False) -> None:
        """Draw a curve, `wide` training pixels wide."""
        self.paper.stroke(curve, wide * self.px, tapered=tapered)

    def dashed(self, curve: Curve, wide: float, dash: float, gap: float) -> None:
        """Draw a dashed curve; all lengths in training pixels."""
        length = np.concatenate([[0], np.cumsum(np.hypot(*np.diff(curve, axis=0).T))]) / self.px
        for start in np.arange(0, length[-1], dash + gap):
            ends = np.linspace(start, min(start + dash, length[-1]), 9)
            at = [np.interp(ends, length, curve[:, axis]) for axis in (0, 1)]
            self.curve(np.stack(at, 1), wide)

    def circle(self, x: float, y: float, radius: float) -> Curve:
        """Return a circle; the radius in training pixels."""
        t = np.linspace(0, 2 * np.pi, 240)
        return np.stack([x + radius * self.px * np.cos(t), y + radius * self.px * np.sin(t)], 1)

    def disc(self, x: float, y: float, radius: float, *, white: bool = False) -> None:
        """Fill a circle; the radius in training pixels."""
        self.paper.fill(self.circle(x, y, radius), white=white)

    def text(self, x: float, y: float, text: str, high: float, font: str | None = None) -> None:
        """Write a left-aligned text with a line height of `high` training pixels."""
        self.paper.write((x, y), text, high * self.px, str(_FONTS / (font or self.fonts[0])))
