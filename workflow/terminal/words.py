"""Names, durations and lists as text for users."""

from collections.abc import Mapping, Sequence

_MINUTE_S, _HOUR_S = 60, 3600


def name_of(wildcards: Mapping[str, str]) -> str:
    """Return the name of the network or image of a job: ``lion_cub / siren``; empty for neither."""
    if "network" in wildcards:
        return f"table {wildcards['network']}"
    if "classifier" in wildcards:
        return f"classifier {wildcards['classifier']}"
    return " / ".join(wildcards[key] for key in ("image", "field") if key in wildcards)


def about(seconds: float) -> str:
    """Return an estimate of a duration as text, rounded coarsely because it is not precise."""
    if seconds < 8:
        return "a few seconds"
    if seconds < 55:
        return f"about {max(10, round(seconds / 10) * 10)} seconds"
    if seconds < 1.5 * _HOUR_S:
        return f"about {count(max(1, round(seconds / _MINUTE_S)), 'minute')}"
    if seconds < 36 * _HOUR_S:
        return f"about {count(round(seconds / _HOUR_S), 'hour')}"
    return f"about {count(round(seconds / _HOUR_S / 24), 'day')}"


def duration(seconds: float) -> str:
    """Return a measured duration: ``6 s``, ``2 min 5 s``, ``1 h 3 min``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < _MINUTE_S:
        return f"{whole} s"
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S} min {whole % _MINUTE_S} s"
    return f"{whole // _HOUR_S} h {whole % _HOUR_S // _MINUTE_S} min"


def count(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 job``, ``1,000 jobs``."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def listed(parts: Sequence[str]) -> str:
    """Join parts: ``50, 200 and 512``."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
