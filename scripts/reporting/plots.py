"""Plots as inline SVG that takes its colours and letters from the page around it."""

import io
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

SIZE_INCHES = (6.0, 3.9)
LETTERS: dict[Any, Any] = {"font.size": 12, "text.parse_math": False}
"""Names of users' columns may have dollar signs."""

# Matplotlib knows no CSS variables, so it draws in these colours and they are replaced afterwards.
STAND_INS = {
    **{"#010101": "var(--muted)", "#020202": "var(--hairline)"},
    **{"#030303": "var(--card)", "#040404": "var(--ink)"},
}
MUTED, HAIRLINE, CARD, INK = STAND_INS

RAMP, RAMP_STEPS = 128, 128
"""Numbers of colours: from `RAMP` on they are steps from the first to the last of a ranking."""

MARKERS = "os^DvPX*"
"""One for each picture, as `MARKER_SIGNS` of the page's legend."""
MARKER_SIGNS = "●■▲◆▼✚✖★"
MARKER_POINTS, SMALL_MARKER_POINTS, MANY_POINTS = 10, 7, 24
LOGARITHMIC_FROM = 5
"""How many times the smallest the largest value is, from which on an axis is logarithmic."""


@dataclass(frozen=True)
class Curve:
    """One network's learning.

    Attributes
    ----------
    colour : int
        Number of the page's series colour.
    x, measured : ndarray of float, shape (n,)
    """

    colour: int
    x: np.ndarray
    measured: np.ndarray


@dataclass(frozen=True)
class Point:
    """What a network reached on a picture, and what it cost.

    Attributes
    ----------
    colour : int
        See `series_colour`.
    marker : int
        Number of the picture.
    label : str
        What it is called where a pointer rests on it.
    x, score_db : float
    sd_db : float or None
        Standard deviation of `score_db`; None or 0 where it is not known.
    """

    label: str
    colour: int
    marker: int
    x: float
    score_db: float
    sd_db: float | None


def series_colour(number: int) -> str:
    """A colour of the page: series first, and from `RAMP` on a ramp of `RAMP_STEPS` steps."""
    if number < RAMP:
        return f"var(--series-{number})"
    share = round(100 * (number - RAMP) / (RAMP_STEPS - 1))
    return f"color-mix(in oklch, var(--ramp-last) {share}%, var(--ramp-first))"


def in_decibels(value: float) -> str:
    """30 as 30 dB."""
    return f"{value:g} dB"


def learning_curves(
    curves: Iterable[Curve], x_label: str, name: str, y_text: Callable[[float], str] = in_decibels
) -> str:
    """Draw how networks became better, over a logarithmic axis.

    Points that are not finite, or not above zero on the axis, are left out.

    Parameters
    ----------
    curves : iterable of Curve
    x_label : str
    name : str
        Prefix of every id inside, so that several figures can stand on one page.
    y_text : callable
        A number as it stands along the vertical axis.

    Returns
    -------
    str
        An ``<svg>`` element.
    """

    def draw(axes: Axes) -> None:
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
    """Draw dB over what it cost, with a whisker of the standard deviation to both sides.

    A line leads through the points of a picture that nothing cheaper is better than. Points that
    are not finite are left out. The axis is logarithmic where it spans much.

    Parameters
    ----------
    points : sequence of Point
        Those that come first lie on top.
    x_label : str
    name : str
        Prefix of every id inside, so that several figures can stand on one page.

    Returns
    -------
    str
        An ``<svg>`` element.
    """
    kept = [point for point in points if math.isfinite(point.x) and math.isfinite(point.score_db)]
    size = MARKER_POINTS if len(kept) <= MANY_POINTS else SMALL_MARKER_POINTS

    def draw(axes: Axes) -> None:
        for marker in sorted({point.marker for point in kept}):
            best = frontier([point for point in kept if point.marker == marker])
            x, score_db = [point.x for point in best], [point.score_db for point in best]
            axes.plot(x, score_db, color=MUTED, linewidth=1, alpha=0.45)
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
                markeredgecolor=CARD,
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
    """Those that nothing cheaper or equally cheap is better than, the cheapest first."""
    best: list[Point] = []
    for point in sorted(points, key=lambda point: (point.x, -point.score_db)):
        if not best or point.score_db > best[-1].score_db:
            best.append(point)
    return best


def inline_svg(draw: Callable[[Axes], None], name: str) -> str:
    """A figure for the page.

    Parameters
    ----------
    draw : callable
        Draws and styles the axes that it is given, in stand-ins for the page's colours.
    name : str
        Prefix of every id inside, so that several figures can stand on one page.

    Returns
    -------
    str
        An ``<svg>`` element.
    """
    settings: dict[Any, Any] = LETTERS | {
        "svg.fonttype": "none",
        "svg.hashsalt": name,
        "text.color": MUTED,
    }
    with mpl.rc_context(settings):
        figure = Figure(figsize=SIZE_INCHES, layout="constrained")
        axes = figure.add_subplot()
        draw(axes)
        content = io.StringIO()
        figure.savefig(content, format="svg", transparent=True, metadata={"Date": None})
    return _inlined(content.getvalue(), name)


def style_axes(
    axes: Axes,
    x_label: str,
    y_text: Callable[[float], str],
    *,
    muted: str = MUTED,
    hairline: str = HAIRLINE,
) -> None:
    """Quiet axes: a label and a line below, fine lines across, and no frame."""
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: y_text(value)))
    axes.set_xlabel(x_label, color=muted)
    axes.tick_params(which="both", length=0, pad=7, labelcolor=muted)
    axes.grid(axis="y", color=hairline, linewidth=1)
    axes.set_axisbelow(True)
    axes.spines[["top", "left", "right"]].set_visible(False)
    axes.spines["bottom"].set_color(hairline)
    axes.margins(x=0.02, y=0.06)


def _short(value: float) -> str:
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def series_stand_in(colour: int) -> str:
    """What a colour of `series_colour` is drawn in, before it is replaced."""
    return f"#0300{colour:02x}"


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
