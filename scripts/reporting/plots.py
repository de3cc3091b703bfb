"""Matplotlib plots as PNG files, and as SVG with the colours and fonts of the surrounding page."""

import io
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import (
    Formatter,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullLocator,
    StrMethodFormatter,
)

from neuralfield.system.files import write_atomically

SIZE_INCHES = (6.0, 3.9)
LETTERS: dict[Any, Any] = {"font.size": 12, "text.parse_math": False}
"""Font settings; formulas are off, because the names of users' columns may have dollar signs."""

DOTS_PER_INCH = 160
MOST_TICKS = 7

PLAIN: Formatter = StrMethodFormatter("{x:g}")
DECIBELS: Formatter = StrMethodFormatter("{x:g} dB")
PERCENT: Formatter = FuncFormatter(lambda value, _: f"{100 * value:g}%")

RAMP, RAMP_STEPS = 128, 128
"""Numbers of colours from `RAMP` on are steps of a colour ramp for ranks, from first to last."""

TITLE = "title: "
"""Prefix of the group id of an artist whose tooltip on the page is the rest of the id."""


@dataclass(frozen=True)
class Colours:
    """The colours of a plot: of text, fine lines and the background, and of series."""

    ink: str
    muted: str
    hairline: str
    background: str
    series: tuple[str, ...]


PAPER = Colours("#211e1a", "#716a60", "#e7e2d8", "#ffffff", ("#c2410c", "#0f766e", "#4f46e5"))
"""The colours of a PNG file: those of the page's light theme."""

PAGE = Colours(
    *("#010101", "#020202", "#030303", "#040404"),
    series=tuple(f"#0300{number:02x}" for number in range(RAMP + RAMP_STEPS)),
)
"""Placeholders for CSS variables, which Matplotlib does not support; replaced afterwards."""

_VARIABLES = {
    **{PAGE.ink: "var(--ink)", PAGE.muted: "var(--muted)"},
    **{PAGE.hairline: "var(--hairline)", PAGE.background: "var(--card)"},
}

Draw = Callable[[Axes, Colours], None]
"""A function that plots on the given axes in the given colours, and styles the axes."""


@dataclass(frozen=True)
class Curve:
    """A curve, or points with a marker; `colour` is the number of a series."""

    colour: int
    x: np.ndarray
    measured: np.ndarray
    marker: str = ""


def learning_curves(curves: Iterable[Curve], x_label: str, y_text: Formatter = DECIBELS) -> Draw:
    """Return a plot of curves over a logarithmic axis.

    Points that are not finite, or whose `x` is not above zero, are left out.
    """

    def draw(axes: Axes, colours: Colours) -> None:
        axes.set_xscale("log")
        for curve in curves:
            shown = np.isfinite(curve.measured) & np.isfinite(curve.x) & (curve.x > 0)
            style: dict[str, Any] = {"linewidth": 2.2, "solid_joinstyle": "round"}
            colour = colours.series[curve.colour]
            points = curve.x[shown], curve.measured[shown]
            axes.plot(*points, marker=curve.marker, color=colour, **style)
        style_axes(axes, x_label, y_text, colours)

    return draw


def series_colour(number: int) -> str:
    """Return a colour of the page: that of a series or, from `RAMP` on, a step of the ramp."""
    if number < RAMP:
        return f"var(--series-{number})"
    share = round(100 * (number - RAMP) / (RAMP_STEPS - 1))
    return f"color-mix(in oklch, var(--ramp-last) {share}%, var(--ramp-first))"


def inline_svg(draw: Draw, name: str) -> Markup:
    """Return a plot as an ``<svg>`` element for the page, in which Matplotlib has escaped all text.

    `name` is a prefix of every id inside, so that several figures can stand on one page.
    """
    fonts = {"svg.fonttype": "none", "svg.hashsalt": name}
    svg = _drawn(draw, PAGE, fonts, format="svg", transparent=True, metadata={"Date": None})
    return Markup(_inlined(svg.decode(), name))


def write_png(draw: Draw, path: Path) -> None:
    """Write a plot as a PNG; the same plot gives the same bytes."""
    options = {"format": "png", "dpi": DOTS_PER_INCH, "metadata": {"Software": None}}
    write_atomically(path, _drawn(draw, PAPER, {}, **options))


def _drawn(draw: Draw, colours: Colours, settings: dict[str, Any], **options: Any) -> bytes:
    """Return the file of a plot; `options` are those of Matplotlib's `savefig`."""
    style: dict[Any, Any] = LETTERS | settings | {"text.color": colours.muted}
    with mpl.rc_context(style):
        figure = Figure(figsize=SIZE_INCHES, layout="constrained", facecolor=colours.background)
        draw(figure.add_subplot(), colours)
        content = io.BytesIO()
        figure.savefig(content, **options)
    return content.getvalue()


def style_axes(axes: Axes, x_label: str, y_text: Formatter, colours: Colours) -> None:
    """Style axes with a label and a line below, horizontal grid lines, and no frame."""
    axes.margins(x=0.02, y=0.06)
    if axes.get_xscale() == "log":
        low, high = axes.get_xlim()
        subs = (1, 2, 5) if high < 1000 * low else (1,)
        axes.xaxis.set_major_locator(LogLocator(subs=subs, numticks=MOST_TICKS))
    axes.yaxis.set_major_locator(MaxNLocator(MOST_TICKS, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(_in_short))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(y_text)
    axes.set_xlabel(x_label, color=colours.muted)
    axes.tick_params(which="both", length=0, pad=7, labelcolor=colours.muted)
    axes.grid(axis="y", color=colours.hairline, linewidth=1)
    axes.set_axisbelow(True)
    axes.spines[["top", "left", "right"]].set_visible(False)
    axes.spines["bottom"].set_color(colours.hairline)


def _in_short(value: float, _: Any) -> str:
    """Format 25000 as 25k."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def _inlined(svg: str, name: str) -> str:
    svg = svg[svg.index("<svg") :]
    for placeholder, variable in _VARIABLES.items():
        svg = svg.replace(placeholder, variable)
    svg = re.sub(r"#0300([0-9a-f]{2})", lambda m: series_colour(int(m[1], 16)), svg)
    svg = re.sub(r"font-family: [^;\"]*; ", "", svg)
    svg = re.sub(rf"<g id=(['\"]){TITLE}(.*?)\1>", r"<g><title>\2</title>", svg)
    svg = re.sub(r'id="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)
    # a style rule inside the SVG would apply to the whole page
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    # without a width and a height, the figure fills its column and keeps its proportions
    return re.sub(r' (width|height)="[\d.]+pt"', "", svg, count=2)
