"""Plots as PNG files, and as inline SVG with the colours and letters of the page around it."""

import io
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from neuralfield.system.files import write_atomically
from reporting.colours import PAGE, PAPER, STAND_INS, Colours, series_colour, series_stand_in

Draw = Callable[[Axes, Colours], None]
"""A function that plots on the axes that it is given, in these colours, and styles them."""

SIZE_INCHES = (6.0, 3.9)
LETTERS: dict[Any, Any] = {"font.size": 12, "text.parse_math": False}
"""Names of users' columns may have dollar signs."""

DOTS_PER_INCH = 160

MARKERS = "os^DvPX*"
"""One for each image, as `MARKER_SIGNS` of the page's legend."""
MARKER_SIGNS = "●■▲◆▼✚✖★"
MARKER_POINTS, SMALL_MARKER_POINTS, MANY_POINTS = 10, 7, 24
LOGARITHMIC_FROM = 5
"""The ratio of the largest to the smallest value from which on an axis is logarithmic."""


@dataclass(frozen=True)
class Curve:
    """The learning curve of a network; `colour` is the number of the page's series colour."""

    colour: int
    x: np.ndarray
    measured: np.ndarray


@dataclass(frozen=True)
class Point:
    """The score of a network on an image over what it cost.

    Attributes
    ----------
    label : str
        Shown where a pointer rests on the point.
    colour : int
        See `series_colour`.
    marker : int
        Number of the image.
    sd_db : float or None
        Standard deviation of `score_db`; None or 0 where it is not known.
    """

    label: str
    colour: int
    marker: int
    x: float
    score_db: float
    sd_db: float | None


def in_decibels(value: float) -> str:
    """Write 30 as 30 dB."""
    return f"{value:g} dB"


def plain(value: float) -> str:
    """Write a number as it is."""
    return f"{value:g}"


def percent(value: float) -> str:
    """Write 0.5 as 50%."""
    return f"{100 * value:g}%"


def learning_curves(
    curves: Iterable[Curve], x_label: str, name: str, y_text: Callable[[float], str] = in_decibels
) -> str:
    """Plot learning curves over a logarithmic axis, as an ``<svg>`` element; see `inline_svg`.

    Points that are not finite, or not above zero on the axis, are left out. `y_text` writes the
    numbers along the vertical axis.
    """

    def draw(axes: Axes, _: Colours) -> None:
        for curve in curves:
            kept = np.isfinite(curve.measured) & (curve.x > 0)
            axes.plot(
                curve.x[kept],
                curve.measured[kept],
                color=series_stand_in(curve.colour),
                linewidth=2.2,
                solid_capstyle="round",
                solid_joinstyle="round",
            )
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(numticks=6))
        axes.yaxis.set_major_locator(MaxNLocator(6, integer=y_text is in_decibels))
        style_axes(axes, x_label, y_text)

    return inline_svg(draw, name)


def scatter(points: Sequence[Point], x_label: str, name: str) -> str:
    """Plot dB over what it cost, as an ``<svg>`` element; see `inline_svg`.

    A line leads through the points of an image that nothing cheaper is better than; the first
    points lie on top. Points that are not finite are left out. The axis is logarithmic where it
    spans much.
    """
    kept = [point for point in points if math.isfinite(point.x) and math.isfinite(point.score_db)]
    size = MARKER_POINTS if len(kept) <= MANY_POINTS else SMALL_MARKER_POINTS

    def draw(axes: Axes, colours: Colours) -> None:
        for marker in sorted({point.marker for point in kept}):
            best = frontier([point for point in kept if point.marker == marker])
            x, score_db = [point.x for point in best], [point.score_db for point in best]
            axes.plot(x, score_db, color=colours.muted, linewidth=1, alpha=0.45)
        for number, point in reversed(list(enumerate(kept))):
            colour = series_stand_in(point.colour)
            if point.sd_db:
                ends_db = (point.score_db - point.sd_db, point.score_db + point.sd_db)
                axes.plot([point.x] * 2, ends_db, color=colour, linewidth=1.6, alpha=0.7)
            axes.plot(
                [point.x],
                [point.score_db],
                MARKERS[point.marker % len(MARKERS)],
                color=colour,
                markersize=size,
                markeredgecolor=colours.gpu,
                markeredgewidth=1.2,
                gid=f"point-{number}",
            )
        lowest, highest = (f((p.x for p in kept), default=1) for f in (min, max))
        if lowest > 0 and highest >= LOGARITHMIC_FROM * lowest:
            subs = (1, 2, 5) if highest < 100 * lowest else (1,)
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=subs, numticks=6))
        else:
            axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.yaxis.set_major_locator(MaxNLocator(6))
        style_axes(axes, x_label, in_decibels)

    svg = inline_svg(draw, name)
    for number, point in enumerate(kept):
        opening = f'<g id="{name}-point-{number}">'
        svg = svg.replace(opening, f"{opening}<title>{escape(point.label)}</title>")
    return svg


def frontier(points: Iterable[Point]) -> list[Point]:
    """Return the points that no cheaper or equally cheap one beats, the cheapest first."""
    best: list[Point] = []
    for point in sorted(points, key=lambda point: (point.x, -point.score_db)):
        if not best or point.score_db > best[-1].score_db:
            best.append(point)
    return best


def inline_svg(draw: Draw, name: str) -> str:
    """Return a plot as an ``<svg>`` element for the page.

    `name` is a prefix of every id inside, so that several figures can stand on one page.
    """
    settings: dict[Any, Any] = LETTERS | {
        "svg.fonttype": "none",
        "svg.hashsalt": name,
        "text.color": PAGE.muted,
    }
    with mpl.rc_context(settings):
        figure = Figure(figsize=SIZE_INCHES, layout="constrained")
        draw(figure.add_subplot(), PAGE)
        content = io.StringIO()
        figure.savefig(content, format="svg", transparent=True, metadata={"Date": None})
    return _inlined(content.getvalue(), name)


def write_png(draw: Draw, path: Path) -> None:
    """Write a plot as a PNG; the same plot gives the same bytes."""
    settings: dict[Any, Any] = LETTERS | {"text.color": PAPER.muted}
    with mpl.rc_context(settings):
        figure = Figure(figsize=SIZE_INCHES, layout="constrained", facecolor=PAPER.gpu)
        draw(figure.add_subplot(), PAPER)
        content = io.BytesIO()
        figure.savefig(content, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    write_atomically(path, content.getvalue())


def style_axes(
    axes: Axes, x_label: str, y_text: Callable[[float], str], colours: Colours = PAGE
) -> None:
    """Give axes a label and a line below, fine lines across, and no frame."""
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: y_text(value)))
    axes.set_xlabel(x_label, color=colours.muted)
    axes.tick_params(which="both", length=0, pad=7, labelcolor=colours.muted)
    axes.grid(axis="y", color=colours.hairline, linewidth=1)
    axes.set_axisbelow(True)
    axes.spines[["top", "left", "right"]].set_visible(False)
    axes.spines["bottom"].set_color(colours.hairline)
    axes.margins(x=0.02, y=0.06)


def _short(value: float) -> str:
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def _inlined(svg: str, name: str) -> str:
    svg = svg[svg.index("<svg") :]
    for stand_in, variable in STAND_INS.items():
        svg = svg.replace(stand_in, variable)
    svg = re.sub(r"#0300([0-9a-f]{2})", lambda m: series_colour(int(m[1], 16)), svg)
    svg = re.sub(r"font-family: [^;\"]*; ", "", svg)
    svg = re.sub(r'id="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)
    # Its style rule would reach the whole page.
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    # The figure fills its column and keeps its proportions.
    return re.sub(r' (width|height)="[\d.]+pt"', "", svg, count=2)
