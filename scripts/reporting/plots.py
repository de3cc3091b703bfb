"""Matplotlib plots as PNG files, and as SVG with the colours and fonts of the surrounding page."""

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from neuralfield.system.files import write_atomically
from reporting.colours import PAGE, PAPER, STAND_INS, Colours, series_colour
from reporting.ticks import in_short

Draw = Callable[[Axes, Colours], None]
"""A function that plots on the given axes in the given colours, and styles the axes."""

SIZE_INCHES = (6.0, 3.9)
LETTERS: dict[Any, Any] = {"font.size": 12, "text.parse_math": False}
"""Font settings; formulas are off, because the names of users' columns may have dollar signs."""

DOTS_PER_INCH = 160


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
        figure = Figure(figsize=SIZE_INCHES, layout="constrained", facecolor=colours.gpu)
        draw(figure.add_subplot(), colours)
        content = io.BytesIO()
        figure.savefig(content, **options)
    return content.getvalue()


def style_axes(
    axes: Axes, x_label: str, y_text: Callable[[float], str], colours: Colours = PAGE
) -> None:
    """Style axes with a label and a line below, horizontal grid lines, and no frame."""
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: in_short(value)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: y_text(value)))
    axes.set_xlabel(x_label, color=colours.muted)
    axes.tick_params(which="both", length=0, pad=7, labelcolor=colours.muted)
    axes.grid(axis="y", color=colours.hairline, linewidth=1)
    axes.set_axisbelow(True)
    axes.spines[["top", "left", "right"]].set_visible(False)
    axes.spines["bottom"].set_color(colours.hairline)
    axes.margins(x=0.02, y=0.06)


def _inlined(svg: str, name: str) -> str:
    svg = svg[svg.index("<svg") :]
    for stand_in, variable in STAND_INS.items():
        svg = svg.replace(stand_in, variable)
    svg = re.sub(r"#0300([0-9a-f]{2})", lambda m: series_colour(int(m[1], 16)), svg)
    svg = re.sub(r"font-family: [^;\"]*; ", "", svg)
    svg = re.sub(r'id="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)
    # a style rule inside the SVG would apply to the whole page
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    # without a width and a height, the figure fills its column and keeps its proportions
    return re.sub(r' (width|height)="[\d.]+pt"', "", svg, count=2)
