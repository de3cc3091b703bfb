"""Learning curves as inline SVG that takes its colours and letters from the page around it."""

import io
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

SIZE_INCHES = (6.0, 3.9)
LETTER_POINTS = 12

# Matplotlib knows no CSS variables, so it draws in these colours and they are replaced afterwards.
STAND_INS = {"#010101": "var(--muted)", "#020202": "var(--hairline)"}
MUTED, HAIRLINE = STAND_INS


@dataclass(frozen=True)
class Curve:
    """One network's learning.

    Attributes
    ----------
    colour : int
        Number of the page's series colour.
    x, psnr_db : ndarray of float, shape (n,)
    """

    colour: int
    x: np.ndarray
    psnr_db: np.ndarray


def learning_curves(curves: Iterable[Curve], x_label: str, name: str) -> str:
    """Draw dB over a logarithmic axis.

    Points that are not finite, or not above zero on the axis, are left out.

    Parameters
    ----------
    curves : iterable of Curve
    x_label : str
    name : str
        Prefix of every id inside, so that several figures can stand on one page.

    Returns
    -------
    str
        An ``<svg>`` element.
    """
    settings: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": name,
        "font.size": LETTER_POINTS,
        "text.color": MUTED,
    }
    with mpl.rc_context(settings):
        figure = Figure(figsize=SIZE_INCHES, layout="constrained")
        axes = figure.add_subplot()
        for curve in curves:
            kept = np.isfinite(curve.psnr_db) & (curve.x > 0)
            axes.plot(
                curve.x[kept],
                curve.psnr_db[kept],
                color=_stand_in(curve.colour),
                linewidth=2.2,
                solid_capstyle="round",
                solid_joinstyle="round",
            )
        _style(axes, x_label)
        content = io.StringIO()
        figure.savefig(content, format="svg", transparent=True, metadata={"Date": None})
    return _inlined(content.getvalue(), name)


def _style(axes, x_label: str) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(numticks=6))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} dB"))
    axes.set_xlabel(x_label, color=MUTED)
    axes.tick_params(which="both", length=0, pad=7, labelcolor=MUTED)
    axes.grid(axis="y", color=HAIRLINE, linewidth=1)
    axes.set_axisbelow(True)
    axes.spines[["top", "left", "right"]].set_visible(False)
    axes.spines["bottom"].set_color(HAIRLINE)
    axes.margins(x=0.02, y=0.06)


def _short(value: float) -> str:
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def _stand_in(colour: int) -> str:
    return f"#0300{colour:02x}"


def _inlined(svg: str, name: str) -> str:
    svg = svg[svg.index("<svg") :]
    for stand_in, variable in STAND_INS.items():
        svg = svg.replace(stand_in, variable)
    svg = re.sub(r"#0300([0-9a-f]{2})", lambda m: f"var(--series-{int(m[1], 16)})", svg)
    svg = re.sub(r"font-family: [^;\"]*; ", "", svg)
    svg = re.sub(r'id="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)
    # Its style rule would reach the whole page.
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    # The figure fills its column and keeps its proportions.
    return re.sub(r' (width|height)="[\d.]+pt"', "", svg, count=2)
