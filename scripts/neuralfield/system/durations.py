"""Parsing of durations such as 90s, 30m or 2h."""

import re

_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smh])")
_UNIT_S = {"s": 1, "m": 60, "h": 3600}


def seconds_of(text: str) -> float | None:
    """Return a duration with a unit in seconds, as an int if possible; None for other texts.

    >>> seconds_of("90s"), seconds_of("1.5h"), seconds_of("0.5s"), seconds_of("soon")
    (90, 5400, 0.5, None)
    """
    written = _DURATION.fullmatch(text)
    if not written:
        return None
    seconds = float(written[1]) * _UNIT_S[written[2]]
    return int(seconds) if seconds.is_integer() else seconds
