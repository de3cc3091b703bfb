"""The colours of plots: fixed ones in a PNG, and on a page the page's own by day and by night."""

from dataclasses import dataclass

# Matplotlib knows no CSS variables, so plots use these colours and they are replaced afterwards.
STAND_INS = {
    **{"#010101": "var(--muted)", "#020202": "var(--hairline)"},
    **{"#030303": "var(--card)", "#040404": "var(--ink)"},
}
MUTED, HAIRLINE, GPU, INK = STAND_INS

RAMP, RAMP_STEPS = 128, 128
"""Numbers of colours: from `RAMP` on they are steps from the first to the last of a ranking."""


def series_colour(number: int) -> str:
    """Return a colour of the page: a series, or from `RAMP` on a step of a ramp."""
    if number < RAMP:
        return f"var(--series-{number})"
    share = round(100 * (number - RAMP) / (RAMP_STEPS - 1))
    return f"color-mix(in oklch, var(--ramp-last) {share}%, var(--ramp-first))"


def series_stand_in(number: int) -> str:
    """Return the colour that stands for `series_colour` until it is replaced."""
    return f"#0300{number:02x}"


@dataclass(frozen=True)
class Colours:
    """The colours of a plot: of letters, fine lines and the ground, and of three series."""

    ink: str
    muted: str
    hairline: str
    gpu: str
    first: str
    second: str
    third: str


PAPER = Colours("#211e1a", "#716a60", "#e7e2d8", "#ffffff", "#c2410c", "#0f766e", "#4f46e5")
"""The colours of a PNG: the page's own, by day."""

PAGE = Colours(INK, MUTED, HAIRLINE, GPU, *(series_stand_in(number) for number in range(3)))
"""Stand-ins for the colours of a page."""
