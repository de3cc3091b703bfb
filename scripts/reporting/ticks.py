"""The ticks on the axes of plots, and the format of their numbers."""

import math


def in_decibels(value: float) -> str:
    """Format 30 as 30 dB."""
    return f"{value:g} dB"


def plain(value: float) -> str:
    """Format a number without a unit."""
    return f"{value:g}"


def percent(value: float) -> str:
    """Format 0.5 as 50%."""
    return f"{100 * value:g}%"


def in_short(value: float) -> str:
    """Format 25000 as 25k."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def even_ticks(low: float, high: float, most: int, least_step: float = 0.0) -> list[float]:
    """Return round numbers in a range, with at most `most` steps of at least `least_step`.

    >>> even_ticks(5.2, 38.1, 6)
    [10.0, 20.0, 30.0]
    """
    rough = max((high - low) / most, least_step, 1e-12)
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def logarithmic_ticks(low: float, high: float, most: int) -> list[float]:
    """Return powers of ten in a range.

    In a small range, 2 and 5 times the powers are added; in a large range, powers are left out.

    >>> logarithmic_ticks(3, 700, 6)
    [5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0]
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = -(-(last - first) // most)
    factors = (1, 2, 5) if last - first <= 3 else (1,)
    found = [f * 10.0**power for power in range(first, last + 1, every) for f in factors]
    return [round(tick, 12) for tick in found if low * 0.999 <= tick <= high * 1.001]
