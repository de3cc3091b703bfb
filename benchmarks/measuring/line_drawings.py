"""Line drawings made of curves, as references for renders of any size."""

from collections.abc import Callable

import numpy as np
from PIL import Image, ImageDraw, ImageFont

_SUPERSAMPLING = 4
"""Number of subpixels per side of a pixel, over which its value is averaged."""

Curve = np.ndarray
"""float64, shape (n, 2): points x, y in [0, 1]."""


class Paper:
    """A square white image, `side_px` pixels wide, on which black shapes are drawn."""

    def __init__(self, side_px: int) -> None:
        self._side = side_px * _SUPERSAMPLING
        self._image = Image.new("L", (self._side, self._side), 255)
        self._draw = ImageDraw.Draw(self._image)

    def fill(self, outline: Curve, *, white: bool = False) -> None:
        """Draw a closed shape."""
        self._draw.polygon([tuple(p) for p in outline * self._side], fill=255 if white else 0)

    def write(self, place: tuple[float, float], text: str, high: float, font: str) -> None:
        """Write a text from its upper left corner; `high` is a fraction of the side."""
        x, y = (self._side * part for part in place)
        self._draw.text((x, y), text, fill=0, font=ImageFont.truetype(font, self._side * high))

    def stroke(
        self, curve: Curve, widest: float, *, tapered: bool = True, white: bool = False
    ) -> None:
        """Draw a brushed line, thin at both ends; `widest` is a fraction of the side."""
        share = np.linspace(0, 1, len(curve))
        swell = np.sqrt(np.sin(np.pi * share)) if tapered else np.ones_like(share)
        half = (0.5 * widest * np.maximum(swell, 0.12))[:, None]
        along = np.gradient(curve, axis=0)
        along /= np.linalg.norm(along, axis=1, keepdims=True) + 1e-12
        across = np.stack([-along[:, 1], along[:, 0]], axis=1) * half
        for a, b, c, d in zip(
            (curve - across)[:-1],
            (curve - across)[1:],
            (curve + across)[1:],
            (curve + across)[:-1],
            strict=True,
        ):  # piece by piece, because a line may cross itself
            self.fill(np.stack([a, b, c, d]), white=white)
        for point, radius in zip(
            curve[:: len(curve) // 200 + 1], half[:: len(curve) // 200 + 1], strict=True
        ):
            box = np.concatenate([point - radius, point + radius]) * self._side
            self._draw.ellipse(tuple(box), fill=255 if white else 0)

    def values(self) -> np.ndarray:
        """Return the drawing; float32, shape (side_px, side_px, 1), from 0 (black) to 1 (white)."""
        whole = np.asarray(self._image, dtype=np.float32) / 255
        side = self._side // _SUPERSAMPLING
        blocks = whole.reshape(side, _SUPERSAMPLING, side, _SUPERSAMPLING)
        return blocks.mean(axis=(1, 3))[:, :, None]


def through(*points: tuple[float, float], closed: bool = False) -> Curve:
    """Return a smooth curve through some points (Catmull & Rom 1974)."""
    p = np.array(points, dtype=np.float64)
    p = np.concatenate([p[-1:], p, p[:2]]) if closed else np.concatenate([p[:1], p, p[-1:]])
    t = np.linspace(0, 1, 80, endpoint=False)[:, None]
    parts = [
        0.5
        * (
            2 * b
            + (c - a) * t
            + (2 * a - 5 * b + 4 * c - d) * t**2
            + (3 * b - a - 3 * c + d) * t**3
        )
        for a, b, c, d in zip(p[:-3], p[1:-2], p[2:-1], p[3:], strict=True)
    ]
    return np.concatenate([*parts, p[-2:-1]])


def draw_roses(paper: Paper) -> None:
    """Draw rhodonea curves and spirals: lines of even width that cross each other."""
    t = np.linspace(0, 2 * np.pi, 3000)
    for petals, radius, x, y, width in ((5, 0.21, 0.27, 0.28, 0.008), (7, 0.17, 0.75, 0.72, 0.005)):
        r = radius * np.cos(petals * t)
        paper.stroke(np.stack([x + r * np.cos(t), y + r * np.sin(t)], 1), width, tapered=False)
    turns = np.linspace(0, 8 * np.pi, 3000)
    r = 0.006 * turns
    paper.stroke(np.stack([0.73 + r * np.cos(turns), 0.26 + r * np.sin(turns)], 1), 0.012)
    for index in range(5):
        ring = 0.05 + 0.03 * index
        circle = np.stack([0.25 + ring * np.cos(t), 0.74 + ring * np.sin(t)], 1)
        paper.stroke(circle, 0.004 + 0.002 * index, tapered=False)


def draw_leaves(paper: Paper) -> None:
    """Draw twigs with filled leaves, white veins in them, and fine outlines."""
    generator = np.random.default_rng(3)
    for x0, bend in ((0.2, 0.08), (0.5, -0.1), (0.8, 0.06)):
        stem = through((x0, 0.97), (x0 + bend, 0.66), (x0 - bend, 0.34), (x0, 0.05))
        paper.stroke(stem, 0.014)
        for index, place in enumerate(np.linspace(40, len(stem) - 30, 7).astype(int)):
            side, size = (-1) ** index, generator.uniform(0.09, 0.14)
            angle = side * generator.uniform(0.5, 1.1) - np.pi / 2
            ahead = np.array([np.cos(angle), np.sin(angle)])
            aside = np.array([-ahead[1], ahead[0]])
            along = np.linspace(0, 1, 90)[:, None]
            belly = 0.3 * size * np.sin(np.pi * along**0.8)
            spine = stem[place] + size * along * ahead
            outline = np.concatenate([spine + belly * aside, (spine - belly * aside)[::-1]])
            if index % 3 == 2:
                paper.stroke(outline, 0.004, tapered=False)
                paper.stroke(spine, 0.004)
            else:
                paper.fill(outline)
                for vein in (0.25, 0.45, 0.65):
                    start, reach = spine[int(90 * vein)], 0.16 * size
                    tip = start + reach * (ahead + 0.9 * aside)
                    paper.fill(
                        np.stack([start - 0.0015 * ahead, tip, start + 0.0015 * ahead]), white=True
                    )


def draw_faces(paper: Paper) -> None:
    """Draw two cats: brushed outlines, filled pupils and noses, and hair-thin whiskers."""
    for x, y, s in ((0.3, 0.36, 0.27), (0.68, 0.66, 0.3)):

        def at(*points: tuple[float, float], x=x, y=y, s=s) -> list[tuple[float, float]]:
            return [(x + s * u, y + s * v) for u, v in points]

        head = at(
            (-0.8, 0),
            (-0.85, -0.85),
            (-0.4, -0.6),
            (0, -0.65),
            (0.4, -0.6),
            (0.85, -0.85),
            (0.8, 0),
            (0.5, 0.6),
            (0, 0.8),
            (-0.5, 0.6),
        )
        paper.stroke(through(*head, closed=True), 0.045 * s, tapered=False)
        for side in (-1, 1):
            eye = at(
                (side * 0.6, -0.05), (side * 0.4, -0.25), (side * 0.18, -0.02), (side * 0.4, 0.08)
            )
            paper.stroke(through(*eye, closed=True), 0.03 * s, tapered=False)
            pupil = at(
                (side * 0.4, -0.2), (side * 0.46, -0.06), (side * 0.4, 0.06), (side * 0.34, -0.06)
            )
            paper.fill(through(*pupil, closed=True))
            for drop in (0.2, 0.3, 0.4):
                whisker = at((side * 0.25, 0.3), (side * 0.7, drop), (side * 1.15, drop + 0.1))
                paper.stroke(through(*whisker), 0.022 * s)
            paper.stroke(through(*at((0, 0.35), (side * 0.12, 0.5), (side * 0.35, 0.42))), 0.05 * s)
        paper.fill(through(*at((-0.12, 0.18), (0.12, 0.18), (0, 0.34)), closed=True))


def draw_waves(paper: Paper) -> None:
    """Draw many parallel lines of varying width, from the width of a gap to hair-thin."""
    x = np.linspace(0.03, 0.97, 800)
    for index in range(22):
        y = 0.06 + 0.04 * index + 0.03 * np.sin(2 * np.pi * (1.5 * x + 0.13 * index))
        paper.stroke(np.stack([x, y], 1), 0.003 + 0.0008 * index)


DRAWINGS: dict[str, Callable[[Paper], None]] = {
    "roses": draw_roses,
    "leaves": draw_leaves,
    "cats": draw_faces,
    "waves": draw_waves,
}


def line_drawing(name: str, side_px: int) -> np.ndarray:
    """Return one of `DRAWINGS`; float32, shape (side_px, side_px, 1), 0 is black, 1 is white."""
    paper = Paper(side_px)
    DRAWINGS[name](paper)
    return paper.values()
