"""Plots of learning curves and of scores over costs, as SVG with the colours of the page."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from markupsafe import Markup

from reporting.colours import series_colour
from reporting.ticks import even_ticks, in_decibels, in_short, logarithmic_ticks

WIDTH, HEIGHT = 432, 281
LEFT, RIGHT, TOP, BOTTOM = 56, 14, 10, 48
"""Margins of a plot, which contain the numbers and labels of the axes."""

MOST_TICKS = 6
MARKER_SIGNS = "●■▲◆▼✚✖★"
"""Markers of images, in a plot and in its legend."""

MARKER_PX, SMALL_MARKER_PX, MANY_POINTS = 15, 10, 24
LOGARITHMIC_FROM = 5
"""Minimum ratio of the largest to the smallest value for a logarithmic axis."""


@dataclass(frozen=True)
class Curve:
    """The learning curve of a network; `colour` is the number of the page's series colour."""

    colour: int
    x: np.ndarray
    measured: np.ndarray


@dataclass(frozen=True)
class Point:
    """The score of a network on an image, over its cost."""

    label: str  # shown when the pointer hovers over the point
    colour: int  # see `series_colour`
    marker: int  # number of the image
    x: float
    score_db: float
    sd_db: float | None  # standard deviation of `score_db`; None or 0 if it is not known


@dataclass(frozen=True)
class _Axis:
    """An axis from `low` to `high`, at pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    is_logarithmic: bool = False

    @classmethod
    def around(
        cls, values: Sequence[float], start: float, end: float, margin: float, log: bool = False
    ) -> "_Axis":
        known = [math.log10(value) if log else value for value in values] or [0.0, 1.0]
        low, high = min(known), max(known)
        if high - low < 1e-9:
            low, high = low - 0.5, high + 0.5
        room = margin * (high - low)
        low, high = low - room, high + room
        return cls(10**low if log else low, 10**high if log else high, start, end, log)

    def at(self, value: float) -> float:
        low, high = self.low, self.high
        if self.is_logarithmic:
            low, high, value = math.log10(low), math.log10(high), math.log10(value)
        return self.start + (self.end - self.start) * (value - low) / (high - low)


def learning_curves(
    curves: Iterable[Curve], x_label: str, y_text: Callable[[float], str] = in_decibels
) -> Markup:
    """Plot learning curves over a logarithmic axis, as an ``<svg>`` element.

    Points that are not finite, or whose `x` is not above zero, are left out. `y_text` formats the
    numbers along the vertical axis.
    """
    kept = []
    for curve in curves:
        shown = np.isfinite(curve.measured) & np.isfinite(curve.x) & (curve.x > 0)
        kept.append((curve, curve.x[shown].tolist(), curve.measured[shown].tolist()))
    x_axis = _across([x for _, own, _ in kept for x in own], 0.02, log=True)
    y_axis = _up([y for _, _, own in kept for y in own])
    marks = []
    for curve, x, y in kept:
        places = [f"{x_axis.at(a):.1f},{y_axis.at(b):.1f}" for a, b in zip(x, y, strict=True)]
        marks.append(
            f'<polyline points="{" ".join(places)}" fill="none" stroke-width="2.2"'
            f' stroke-linecap="round" stroke-linejoin="round"'
            f' style="stroke: {series_colour(curve.colour)}"/>'
        )
    least_step = 1.0 if y_text is in_decibels else 0.0
    return _svg(x_axis, y_axis, x_label, y_text, marks, least_step)


def scatter(points: Sequence[Point], x_label: str) -> Markup:
    """Plot scores in dB over costs, as an ``<svg>`` element.

    A line connects the points on the Pareto frontier of each image. The first points are drawn on
    top. Points that are not finite are left out. The horizontal axis is logarithmic if the costs
    span a large range, see `LOGARITHMIC_FROM`.
    """
    kept = [point for point in points if math.isfinite(point.x) and math.isfinite(point.score_db)]
    size_px = MARKER_PX if len(kept) <= MANY_POINTS else SMALL_MARKER_PX
    costs = [point.x for point in kept]
    log = bool(kept) and min(costs) > 0 and max(costs) >= LOGARITHMIC_FROM * min(costs)
    x_axis = _across(costs, 0.05, log=log)
    spread = [point.score_db + sign * (point.sd_db or 0) for point in kept for sign in (-1, 1)]
    y_axis = _up(spread)
    marks = []
    for marker in sorted({point.marker for point in kept}):
        best = frontier([point for point in kept if point.marker == marker])
        places = [f"{x_axis.at(p.x):.1f},{y_axis.at(p.score_db):.1f}" for p in best]
        marks.append(
            f'<polyline points="{" ".join(places)}" fill="none" stroke-opacity="0.45"'
            ' style="stroke: var(--muted)"/>'
        )
    for point in reversed(kept):
        colour, x, y = series_colour(point.colour), x_axis.at(point.x), y_axis.at(point.score_db)
        if point.sd_db:
            ends = (y_axis.at(point.score_db + sign * point.sd_db) for sign in (-1, 1))
            places = " ".join(f"{x:.1f},{end:.1f}" for end in ends)
            marks.append(
                f'<polyline points="{places}" stroke-width="1.6" stroke-opacity="0.7"'
                f' style="stroke: {colour}"/>'
            )
        sign = MARKER_SIGNS[point.marker % len(MARKER_SIGNS)]
        marks.append(
            f'<text class="mark" x="{x:.1f}" y="{y:.1f}" text-anchor="middle"'
            f' dominant-baseline="central" paint-order="stroke" stroke-width="2"'
            f' style="font-size: {size_px}px !important; fill: {colour}; stroke: var(--card)">'
            f"<title>{escape(point.label)}</title>{sign}</text>"
        )
    return _svg(x_axis, y_axis, x_label, in_decibels, marks)


def frontier(points: Iterable[Point]) -> list[Point]:
    """Return the points with a higher score than all cheaper or equally cheap ones, by cost."""
    best: list[Point] = []
    for point in sorted(points, key=lambda point: (point.x, -point.score_db)):
        if not best or point.score_db > best[-1].score_db:
            best.append(point)
    return best


def _across(values: Sequence[float], margin: float, *, log: bool) -> _Axis:
    return _Axis.around(values or [1.0], LEFT, WIDTH - RIGHT, margin, log)


def _up(values: Sequence[float]) -> _Axis:
    return _Axis.around(values, HEIGHT - BOTTOM, TOP, 0.06)


def _svg(
    x_axis: _Axis,
    y_axis: _Axis,
    x_label: str,
    y_text: Callable[[float], str],
    marks: Sequence[str],
    least_step: float = 0.0,
) -> Markup:
    """Put marks on axes with horizontal grid lines, numbers beside and below, and no frame."""
    lines, bottom = [], HEIGHT - BOTTOM
    for tick in even_ticks(y_axis.low, y_axis.high, MOST_TICKS, least_step):
        y = y_axis.at(tick)
        lines.append(_line(y, "var(--hairline)"))
        lines.append(_text(LEFT - 9, y, "end", "central", y_text(tick)))
    choose = logarithmic_ticks if x_axis.is_logarithmic else even_ticks
    for tick in choose(x_axis.low, x_axis.high, MOST_TICKS):
        lines.append(_text(x_axis.at(tick), bottom + 20, "middle", "auto", in_short(tick)))
    lines.append(_line(bottom, "var(--hairline)"))
    lines.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, "middle", "auto", x_label))
    content = "".join([*lines, *marks])
    # safe, because all text in it is escaped
    return Markup(f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" font-size="12">{content}</svg>')


def _line(y: float, colour: str) -> str:
    return f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" style="stroke: {colour}"/>'


def _text(x: float, y: float, anchor: str, baseline: str, words: str) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" dominant-baseline="{baseline}"'
        f' style="fill: var(--muted)">{escape(words)}</text>'
    )
