"""What plots are drawn in: as a PNG by day, and on a page in the page's own colours."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from neuralfield.system.files import write_atomically
from reporting.plots import CARD, HAIRLINE, INK, LETTERS, MUTED, SIZE_INCHES, series_stand_in

DOTS_PER_INCH = 160


@dataclass(frozen=True)
class Colours:
    """What a plot is drawn in.

    Attributes
    ----------
    ink, muted, hairline, card : str
        Of letters, quiet ones, fine lines and what lies below.
    first, second, third : str
        Of what is shown.
    """

    ink: str
    muted: str
    hairline: str
    card: str
    first: str
    second: str
    third: str


PAPER = Colours("#211e1a", "#716a60", "#e7e2d8", "#ffffff", "#c2410c", "#0f766e", "#4f46e5")
"""Of plot.png: the page's own, by day."""

PAGE = Colours(INK, MUTED, HAIRLINE, CARD, *(series_stand_in(number) for number in range(3)))
"""Stand-ins, which become the page's colours by day and by night."""


def write_png(draw: Callable[[Axes, Colours], None], path: Path) -> None:
    """Write a plot as a PNG; the same plot gives the same bytes.

    Parameters
    ----------
    draw : callable
        Draws and styles the axes that it is given, in these colours.
    path : Path
    """
    settings: dict[Any, Any] = LETTERS | {"text.color": PAPER.muted}
    with mpl.rc_context(settings):
        figure = Figure(figsize=SIZE_INCHES, layout="constrained", facecolor=PAPER.card)
        draw(figure.add_subplot(), PAPER)
        content = io.BytesIO()
        figure.savefig(content, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    write_atomically(path, content.getvalue())
