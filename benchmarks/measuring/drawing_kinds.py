"""Ten kinds of drawings in black and white, in three sets: a for tuning, b and c for evaluation.

The sets differ in shapes, numbers and widths of lines, and texts. Lengths are in training pixels;
a side has 200. Lines are at least half a training pixel wide, except those of contours, which are a
third of a pixel wide. In the fine sets all lines, letters and gaps are half as wide.
"""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import matplotlib
import numpy as np

from measuring.line_drawings import DRAWINGS, Curve, Paper, line_drawing, through

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
}
_PLACES = {
    "a": ("Alden", "Brook", "Corvey", "Dale"),
    "b": ("Ystad", "Westry", "Vinje", "Ulm"),
    "c": ("Ghent", "Zwolle", "Kotka", "Pinsk"),
    "d": ("Nidda", "Ebro", "Tarbes", "Ljuba"),
}
_FONT_PAIRS = {
    "a": ("DejaVuSerif.ttf", "DejaVuSans-Bold.ttf"),
    "b": ("STIXGeneral.ttf", "DejaVuSerif-Bold.ttf"),
    "c": ("DejaVuSans.ttf", "STIXGeneralBol.ttf"),
    "d": ("DejaVuSerif-Italic.ttf", "DejaVuSansMono-Bold.ttf"),
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
        """Return the parameter of this set; set d takes those of the others in turn."""
        self._taken += 1
        return {"a": a, "b": b, "c": c, "d": (a, b, c)[self._taken % 3]}[self.letter]

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


def draw_text(sheet: Sheet) -> None:
    """Write a page of text, from titles down to barely legible lines."""
    sheet.text(0.05, 0.03, sheet.words[3].title(), 30, sheet.fonts[1])
    y, first = 0.03 + 34 * sheet.px, 0
    for high in (18, 14, 12, 10, 9, 8, 7):
        for _ in range(2):
            line = " ".join((sheet.words * 2)[first : first + int(52 / high) + 1])
            sheet.text(0.05, y, line, high)
            first = (first + 5) % len(sheet.words)
            y += 1.12 * high * sheet.px
            if y > 0.93:
                return


def draw_gears(sheet: Sheet) -> None:
    """Draw gears with spokes and holes, outlined and filled, and thin centre lines."""
    places = ((0.3, 0.3, 44), (0.72, 0.34, 28), (0.55, 0.74, 38), (0.2, 0.8, 20))
    for index, (x, y, whole) in enumerate(places):
        radius = whole / sheet.scale
        teeth = int(sheet.random.integers(9, 22))
        t = np.linspace(0, 2 * np.pi, 60 * teeth)
        rim = radius * (
            1 + 0.1 * np.clip(4 * np.sin(teeth * t + sheet.random.uniform(0, 6)), -1, 1)
        )
        outline = np.stack([x + rim * sheet.px * np.cos(t), y + rim * sheet.px * np.sin(t)], 1)
        if index % 2 == 0:
            sheet.paper.fill(outline)
            for ring in (0.72, 0.66):
                sheet.disc(x, y, ring * radius, white=ring == 0.72)
            sheet.disc(x, y, 0.62 * radius, white=True)
            spokes = int(sheet.random.integers(3, 7))
            for angle in np.arange(spokes) * 2 * np.pi / spokes:
                tip = (
                    x + 0.7 * radius * sheet.px * np.cos(angle),
                    y + 0.7 * radius * sheet.px * np.sin(angle),
                )
                sheet.line((x, y), tip, wide=0.08 * radius * sheet.weight)
        else:
            sheet.curve(outline, 0.8 * sheet.weight)
            for ring in (0.3, 0.5, 0.78):
                sheet.curve(sheet.circle(x, y, ring * radius), 0.5 * sheet.weight)
        sheet.disc(x, y, 0.2 * radius)
        sheet.disc(x, y, 0.1 * radius, white=True)
        for ends in (((x - 0.27, y), (x + 0.27, y)), ((x, y - 0.27), (x, y + 0.27))):
            sheet.dashed(np.linspace(*ends, 50), 0.35 * sheet.weight, 6, 2)


def draw_contours(sheet: Sheet) -> None:
    """Draw the hills of a map: dashed lines, 1/3 of a training pixel wide, which is all grey."""
    t = np.linspace(0, 2 * np.pi, 1200)
    hills = sheet.of(
        ((0.3, 0.34, 3), (0.66, 0.68, 2)),
        ((0.6, 0.3, 2), (0.34, 0.7, 4)),
        ((0.33, 0.66, 5), (0.68, 0.34, 3)),
    )
    for x, y, lobes in hills:
        for index in range(8):
            r = (0.04 + 0.032 * index) * (1 + 0.18 * np.sin(lobes * t + 0.3 * index))
            ring = np.stack([x + r * np.cos(t), y + 0.9 * r * np.sin(t)], 1)
            sheet.dashed(ring, 0.34 * sheet.weight, sheet.of(5, 8, 6.5), 3)


def draw_hatching(sheet: Sheet) -> None:
    """Draw blocks and a ball shaded by parallel and crossed lines."""
    for row in range(3):
        for column in range(3):
            x, y = 0.05 + 0.31 * column, 0.05 + 0.31 * row
            pitch = (2.4 + 0.5 * (3 * row + column)) * sheet.of(1, 1.15, 1.08)
            wide = pitch * sheet.random.uniform(0.2, 0.42)
            for angle in sheet.random.uniform(0, np.pi) + np.arange(1 + (row + column) % 2) * 1.1:
                _hatch(sheet, (x, y, 0.28), angle, pitch, wide)
            corners = ((x, y), (x + 0.28, y), (x + 0.28, y + 0.28), (x, y + 0.28), (x, y))
            sheet.line(*corners, wide=0.7 * sheet.weight)


def _hatch(
    sheet: Sheet, box: tuple[float, float, float], angle: float, pitch: float, wide: float
) -> None:
    """Fill a square, given by left, top and side, with parallel lines."""
    x, y, side = box
    ahead = np.array([np.cos(angle), np.sin(angle)])
    aside = np.array([-ahead[1], ahead[0]])
    centre = np.array([x, y]) + side / 2
    for place in np.arange(-0.75 * side, 0.75 * side, pitch * sheet.px):
        points = centre + place * aside + np.linspace(-side, side, 400)[:, None] * ahead
        is_inside = (np.abs(points - centre) <= side / 2).all(axis=1)
        if is_inside.sum() > 2:
            sheet.curve(points[is_inside], wide)


def draw_comic(sheet: Sheet) -> None:
    """Draw two panels: a face, screentone, speed lines and a balloon with words."""
    w = sheet.weight
    for left, right in ((0.03, 0.49), (0.52, 0.97)):
        sheet.line((left, 0.03), (right, 0.03), (right, 0.97), (left, 0.97), (left, 0.03), wide=1.6)
    x, y = sheet.of((0.26, 0.66), (0.25, 0.6), (0.27, 0.63))
    head = [(-0.17, -0.1), (0, -0.2), (0.17, -0.1), (0.15, 0.1), (0, 0.22), (-0.15, 0.1)]
    sheet.curve(through(*((x + u, y + v) for u, v in head), closed=True), 1.6 * w)
    for side in (-1, 1):
        sheet.curve(sheet.circle(x + side * 0.07, y - 0.02, 6), 0.8 * w)
        sheet.disc(x + side * 0.07, y - 0.02, 3.4)
        sheet.disc(x + side * 0.07 + 0.005, y - 0.026, 1.1, white=True)
        brow = through(
            (x + side * 0.03, y - 0.07), (x + side * 0.07, y - 0.09), (x + side * 0.12, y - 0.07)
        )
        sheet.curve(brow, 2.4 * w, tapered=True)
    sheet.curve(
        through((x - 0.06, y + 0.1), (x, y + 0.13), (x + 0.07, y + 0.09)), 1.8, tapered=True
    )
    for place in np.linspace(-0.16, 0.16, sheet.of(13, 9, 11)):
        tip = (x + 0.8 * place, y - 0.13 - 0.06 * np.cos(9 * place))
        sheet.curve(
            through((x + 1.1 * place, y - 0.24), (x + place, y - 0.2), tip), 3.2 * w, tapered=True
        )
    balloon = np.stack(
        [0.26 + 0.19 * np.cos(a := np.linspace(0, 6.2832, 300)), 0.17 + 0.1 * np.sin(a)], 1
    )
    sheet.curve(balloon, 0.9 * w)
    for row in range(2):
        words = " ".join(sheet.words[3 + 2 * row : 5 + 2 * row]).upper()
        sheet.text(0.105, 0.115 + 0.05 * row, words, 9 / sheet.scale**0.8)
    pitch = sheet.of(4.2, 3.6, 3.9)
    for row, v in enumerate(np.arange(0.6, 0.95, pitch * sheet.px / 2)):
        for u in np.arange(0.54, 0.94, pitch * sheet.px):
            sheet.disc(
                u + (row % 2) * pitch * sheet.px / 2, v, 0.15 * pitch + 0.75 * (v - 0.6) * pitch
            )
    for angle in np.linspace(0, 2 * np.pi, sheet.of(40, 56, 47), endpoint=False):
        start, end = sheet.random.uniform(0.07, 0.1), sheet.random.uniform(0.17, 0.22)
        ray = np.array([np.cos(angle), np.sin(angle)])
        line = np.array([0.745, 0.3]) + np.linspace(start, end, 60)[:, None] * ray
        sheet.curve(line, 1.3, tapered=True)
    sheet.disc(0.745, 0.3, 10)


def draw_engraving(sheet: Sheet) -> None:
    """Draw a ball and its shadow by lines whose width follows the shade, as on a banknote."""
    pitch = sheet.of(3.0, 3.4, 3.2)
    light = np.array(sheet.of((-0.5, -0.6, 0.62), (0.55, -0.5, 0.67), (-0.6, 0.45, 0.66)))
    for v in np.arange(0.06, 0.95, pitch * sheet.px):
        u = np.linspace(0.04, 0.96, 900)
        x, y = (u - 0.5) / 0.34, (v - 0.45) / 0.34
        inside = x**2 + y**2 < 1
        z = np.sqrt(np.maximum(0, 1 - x**2 - y**2))
        shade = np.where(
            inside,
            0.12 + 0.75 * np.clip(1 - (x * light[0] + y * light[1] + z * light[2]), 0, 1),
            0.2,
        )
        shadow = ((u - 0.55) / 0.4) ** 2 + ((v - 0.84) / 0.08) ** 2 < 1
        shade = np.where(shadow & ~inside, 0.62, shade)
        bend = np.where(inside, 0.05 * z * np.sign(0.45 - v) * np.abs(y), 0)
        half = 0.5 * pitch * sheet.px * shade
        lower, upper = (np.stack([u, v - bend + sign * half], 1) for sign in (-1, 1))
        sheet.paper.fill(np.concatenate([lower, upper[::-1]]))


def draw_map(sheet: Sheet) -> None:
    """Draw a map: double-lined roads, a river, a dashed border, blocks of houses, and names."""
    w = sheet.weight
    for _ in range(3):
        ys = np.sort(sheet.random.uniform(0.05, 0.95, 4))
        road = through((0, ys[0]), (0.3, ys[2]), (0.6, ys[1]), (1, ys[3]))
        sheet.curve(road, 3.6)
        sheet.paper.stroke(road, (3.6 - 1.0 * w) * sheet.px, tapered=False, white=True)
    xs = sheet.random.uniform(0.1, 0.9, 4)
    river = through((xs[0], 0), (xs[1], 0.35), (xs[2], 0.65), (xs[3], 1))
    for offset in (0, 0.012, 0.02):
        sheet.curve(np.add(river, (offset, 0)), 0.4 * w)
    border = through(
        (0.05, 0.95),
        *zip(np.linspace(0.25, 0.75, 3), sheet.random.uniform(0.2, 0.8, 3), strict=True),
        (0.96, 0.06),
    )
    sheet.dashed(border, 0.6 * w, 5, 2.2)
    for _ in range(26):
        x, y = sheet.random.uniform(0.03, 0.93, 2)
        a, b = sheet.random.uniform(1.5, 5, 2) * sheet.px
        box = np.array([(x, y), (x + a, y), (x + a, y + b), (x, y + b)])
        sheet.paper.fill(box)
    for place, name in enumerate(sheet.places):
        x, y = sheet.random.uniform(0.08, 0.6), 0.1 + 0.22 * place
        sheet.disc(x - 0.02, y + 0.025, 1.6)
        sheet.text(x, y, name, 9 + 2 * (place % 3))


def draw_music(sheet: Sheet) -> None:
    """Draw five staves: thin lines, note heads, stems, beams and bars."""
    gap = sheet.of(2.6, 3.0, 2.8)
    for staff in range(5):
        top = 0.08 + 0.185 * staff
        for line in range(5):
            y = top + line * gap * sheet.px
            sheet.line((0.04, y), (0.96, y), wide=0.3 * sheet.weight)
        bottom = top + 4 * gap * sheet.px
        for bar in np.linspace(0.04, 0.96, sheet.of(4, 5, 6)):
            sheet.line((bar, top), (bar, bottom), wide=0.5)
        sheet.text(0.05, top - 0.3 * gap * sheet.px, "&", 5.4 * gap, sheet.fonts[1])
        xs = np.arange(0.14, 0.93, sheet.of(0.055, 0.062, 0.058))
        steps = sheet.random.integers(-1, 9, len(xs))
        for index, (x, step) in enumerate(zip(xs, steps, strict=True)):
            y = bottom - 0.5 * step * gap * sheet.px
            head = sheet.circle(0, 0, gap) * [0.68, 0.46]
            turned = head @ np.array([[0.94, -0.34], [0.34, 0.94]]) + [x, y]
            is_open = (index + staff) % 5 == 3
            if is_open:
                sheet.curve(turned, 0.5)
            else:
                sheet.paper.fill(turned)
            stem = x + 0.62 * gap * sheet.px
            high = (
                bottom - 5.2 * gap * sheet.px
                if index % 4 < 2 and not is_open
                else y - 3.2 * gap * sheet.px
            )
            sheet.line((stem, y), (stem, high), wide=0.45 * sheet.weight)
            if index % 4 == 1 and not is_open and (index - 1 + staff) % 5 != 3:
                sheet.line((stem - (xs[1] - xs[0]), high), (stem, high), wide=0.45 * gap)


def draw_circuit(sheet: Sheet) -> None:
    """Draw a circuit: wires at right angles, resistors, capacitors, chips with pins and names."""
    w = 0.55 * sheet.weight
    chips = sheet.of(
        ((0.3, 0.22, 0.18), (0.68, 0.6, 0.2)),
        ((0.2, 0.6, 0.2), (0.6, 0.16, 0.24)),
        ((0.36, 0.6, 0.22), (0.62, 0.2, 0.19)),
    )
    for number, (x, y, side) in enumerate(chips):
        sheet.line((x, y), (x + side, y), (x + side, y + side), (x, y + side), (x, y), wide=1.1 * w)
        sheet.text(x + 0.035, y + 0.4 * side, f"U{number + 1}", 11)
        for pin in range(6):
            v = y + side * (pin + 0.5) / 6
            reach = sheet.random.uniform(0.05, 0.14)
            for start, end in ((x, x - reach), (x + side, x + side + reach)):
                sheet.line((start, v), (end, v), wide=w)
            sheet.line((x - reach, v), (x - reach, sheet.random.uniform(0.05, 0.95)), wide=w)
            sheet.disc(x + side + reach, v, 0.9)
            sheet.text(x + 0.007, v - 0.013, str(pin + 1), 6 / sheet.scale)
    for index in range(5):
        x, y = 0.08 + 0.18 * index, 0.9 if index % 2 else 0.06
        zigzag = [(x + 0.012 * k, y + (0.011 if k % 2 else -0.011) * (0 < k < 7)) for k in range(8)]
        sheet.line((x - 0.04, y), *zigzag, (x + 0.12, y), wide=w)
        sheet.text(x + 0.01, y + 0.015, f"R{index + 1}", 7)
        for plate in (0, 2):
            u = 0.1 + 0.2 * index
            sheet.line(
                (u - 0.02, 0.5 + plate * sheet.px), (u + 0.02, 0.5 + plate * sheet.px), wide=0.8
            )
        sheet.line((0.1 + 0.2 * index, 0.5), (0.1 + 0.2 * index, 0.44), wide=w)
        sheet.line((0.1 + 0.2 * index, 0.5 + 2 * sheet.px), (0.1 + 0.2 * index, 0.57), wide=w)


def draw_signature(sheet: Sheet) -> None:
    """Draw three names with a pen of varying width."""
    for row in range(3):
        y, size = 0.2 + 0.3 * row, 0.055 + 0.012 * row
        t = np.linspace(0, 1, 2400)
        loops = sheet.random.uniform(7, 11)
        sway = 1 + 0.55 * np.sin(2 * np.pi * (1.7 * t + sheet.random.uniform()))
        phase = 2 * np.pi * loops * t
        u = 0.1 + 0.76 * t + 0.032 * np.sin(phase) + 0.01 * np.sin(0.5 * phase)
        v = y + size * sway * np.cos(phase) + 0.03 * np.sin(2.3 * phase / loops)
        curve = np.stack([u + 0.4 * (y - v), v], 1)
        falling = np.clip(np.gradient(v) / np.abs(np.gradient(v)).max(), 0, 1)
        half = (0.18 + 0.75 * falling) * sheet.px * sheet.weight
        along = np.gradient(curve, axis=0)
        across = np.stack([-along[:, 1], along[:, 0]], 1)
        across *= (half / (np.hypot(*across.T) + 1e-12))[:, None]
        for k in range(len(t) - 1):
            quad = (curve[k] - across[k], curve[k + 1] - across[k + 1])
            sheet.paper.fill(np.stack([*quad, curve[k + 1] + across[k + 1], curve[k] + across[k]]))
        under = through((0.12, y + 0.11), (0.5, y + 0.09), (0.9, y + 0.12))
        sheet.curve(under, 1.2 * sheet.weight, tapered=True)


KINDS: dict[str, Callable[[Sheet], None]] = {
    "text": draw_text,
    "gears": draw_gears,
    "contours": draw_contours,
    "hatching": draw_hatching,
    "comic": draw_comic,
    "engraving": draw_engraving,
    "map": draw_map,
    "music": draw_music,
    "circuit": draw_circuit,
    "signature": draw_signature,
}


SETS = {
    **dict.fromkeys(("a", "b", "c", "d", "a_fine", "b_fine", "c_fine", "d_fine"), tuple(KINDS)),
    "curves": tuple(DRAWINGS),
}
"""The names of the drawings of each set; those of the last one are in line_drawings.py."""


def drawing_of(kind: str, name: str, side_px: int) -> np.ndarray:
    """Return a drawing of a set; float32, shape (side_px, side_px, 1), 0 is black, 1 is white."""
    if name == "curves":
        return line_drawing(kind, side_px)
    sheet = Sheet(name, kind, side_px)
    KINDS[kind](sheet)
    return sheet.paper.values()
