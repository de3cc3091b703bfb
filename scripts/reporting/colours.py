"""The colours of plots: fixed ones in PNG files, and those of the page's theme on a page."""

from dataclasses import dataclass

# Matplotlib does not support CSS variables: plots use these placeholders, replaced afterwards.
STAND_INS = {
    **{"#010101": "var(--muted)", "#020202": "var(--hairline)"},
    **{"#030303": "var(--card)", "#040404": "var(--ink)"},
}
MUTED, HAIRLINE, GPU, INK = STAND_INS

RAMP, RAMP_STEPS = 128, 128
"""Numbers of colours from `RAMP` on are steps of a colour ramp for ranks, from first to last."""


def series_colour(number: int) -> str:
    """Return a colour of the page: that of a series or, from `RAMP` on, a step of the ramp."""
    if number < RAMP:
        return f"var(--series-{number})"
    share = round(100 * (number - RAMP) / (RAMP_STEPS - 1))
    return f"color-mix(in oklch, var(--ramp-last) {share}%, var(--ramp-first))"


def series_stand_in(number: int) -> str:
    """Return the placeholder that is later replaced by `series_colour`."""
    return f"#0300{number:02x}"


@dataclass(frozen=True)
class Colours:
    """The colours of a plot: of text, fine lines and the background, and of three series."""

    ink: str
    muted: str
    hairline: str
    gpu: str
    first: str
    second: str
    third: str


PAPER = Colours("#211e1a", "#716a60", "#e7e2d8", "#ffffff", "#c2410c", "#0f766e", "#4f46e5")
"""The colours of a PNG file: those of the page's light theme."""

PAGE = Colours(INK, MUTED, HAIRLINE, GPU, *(series_stand_in(number) for number in range(3)))
"""Placeholders for the colours of a page."""
