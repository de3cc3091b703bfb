"""Ten kinds of drawings in black and white, in four sets: a for tuning, b to d for evaluation.

The sets differ in shapes, numbers and widths of lines, and texts. Lengths are in training pixels;
a side has 200. Lines are at least half a training pixel wide, except those of contours, which are a
third of a pixel wide. In the fine sets all lines, letters and gaps are half as wide.
"""

from collections.abc import Callable

import numpy as np

from measuring.drawing_sheet import Sheet
from measuring.line_drawings import DRAWINGS, line_drawing, through


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
    **dict.fromkeys((*"abcde", *(f"{letter}_fine" for letter in "abcde")), tuple(KINDS)),
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
