"""Plots of the networks of a sweep: their scores over their costs."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes

from reporting.plots import DECIBELS, TITLE, Colours, Draw, style_axes

MARKERS = {"●": "o", "■": "s", "▲": "^", "◆": "D", "▼": "v", "✚": "P", "✖": "X", "★": "*"}
"""Markers of images: their signs in the legend of the page, and Matplotlib's names of them."""

MARKER_SIZE, SMALL_MARKER_SIZE, MANY_POINTS = 9, 6, 24
LOGARITHMIC_FROM = 5
"""Minimum ratio of the largest to the smallest cost for a logarithmic axis."""


@dataclass(frozen=True)
class Point:
    """The score of a network on an image, over its cost."""

    label: str  # shown when the pointer hovers over the point
    colour: int  # see `reporting.plots.series_colour`
    marker: int  # number of the image
    x: float
    score_db: float
    sd_db: float | None  # standard deviation of `score_db`; None or 0 if it is not known


def scatter(points: Sequence[Point], x_label: str) -> Draw:
    """Return a plot of scores in dB over costs.

    A line connects the points on the Pareto frontier of each image. The first points are drawn on
    top. Points that are not finite are left out.
    """
    shown = [point for point in points if math.isfinite(point.x) and math.isfinite(point.score_db)]
    size = MARKER_SIZE if len(shown) <= MANY_POINTS else SMALL_MARKER_SIZE
    costs = [point.x for point in shown]

    def draw(axes: Axes, colours: Colours) -> None:
        if costs and min(costs) > 0 and max(costs) >= LOGARITHMIC_FROM * min(costs):
            axes.set_xscale("log")
        for marker in sorted({point.marker for point in shown}):
            best = frontier(point for point in shown if point.marker == marker)
            x, scores = [point.x for point in best], [point.score_db for point in best]
            axes.plot(x, scores, color=colours.muted, linewidth=1, alpha=0.45)
        markers = tuple(MARKERS.values())
        style: dict[str, Any] = {"markersize": size, "markeredgecolor": colours.background}
        for point in reversed(shown):
            colour, sd_db = colours.series[point.colour], point.sd_db or 0
            if sd_db:
                ends = [point.score_db - sd_db, point.score_db + sd_db]
                axes.plot([point.x] * 2, ends, color=colour, linewidth=1.6, alpha=0.7)
            marker = markers[point.marker % len(markers)]
            gid = TITLE + point.label
            axes.plot(point.x, point.score_db, marker, color=colour, gid=gid, **style)
        style_axes(axes, x_label, DECIBELS, colours)
        axes.margins(x=0.05)

    return draw


def frontier(points: Iterable[Point]) -> list[Point]:
    """Return the points with a higher score than all cheaper or equally cheap ones, by cost."""
    best: list[Point] = []
    for point in sorted(points, key=lambda point: (point.x, -point.score_db)):
        if not best or point.score_db > best[-1].score_db:
            best.append(point)
    return best
