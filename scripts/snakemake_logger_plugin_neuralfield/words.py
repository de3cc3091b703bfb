"""Durations, counts and the numbers of results as text."""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400

_MOST_ROWS = 20

_NAMES = ("image", "network")


def about(seconds: float) -> str:
    """Return an estimate of a duration as text, rounded coarsely because it is not precise."""
    for unit_s, noun in ((_DAY_S, "day"), (_HOUR_S, "hour"), (_MINUTE_S, "minute")):
        if seconds >= 1.5 * unit_s:
            return count(round(seconds / unit_s), noun)
    return count(max(10, round(seconds / 10) * 10), "second")


def duration(seconds: float) -> str:
    """Return a measured duration: ``6.0 s``, ``2 min 5 s``, ``1 h 3 min``."""
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


def read_json(path: Path) -> dict[str, Any]:
    """Read a small file that a job has written; empty if it is missing or damaged."""
    try:
        numbers = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return numbers if isinstance(numbers, dict) else {}


def metrics_in_words(numbers: Mapping[str, Any]) -> str:
    """Return the metrics of a network of an image, of a table or of a classifier as text."""
    cells = {head: _cell(numbers, head) for head in _COLUMNS if head != _TRAINED}
    return ", ".join(f"{head} {cell}" for head, cell in cells.items() if cell)


def table(folders: Iterable[Path]) -> list[str]:
    """Return a table of the metrics in these folders, without empty columns."""
    rows = [
        (folder.parent.name, folder.name, *(_cell(numbers, head) for head in _COLUMNS))
        for folder in folders
        if (numbers := read_json(folder / "metrics.json"))
    ]
    if not rows:
        return []
    aligned = []
    for head, *cells in zip((*_NAMES, *_COLUMNS), *rows[:_MOST_ROWS], strict=True):
        if any(cells):
            width = max(map(len, (head, *cells)))
            align = str.ljust if head in _NAMES else str.rjust
            aligned.append([align(cell, width) for cell in (head, *cells)])
    lines = ["  ".join(row).rstrip() for row in zip(*aligned, strict=True)]
    return lines + [f"... and {len(rows) - _MOST_ROWS} more"] * (len(rows) > _MOST_ROWS)


def _best_filter(numbers: Mapping[str, Any]) -> str:
    name = numbers["upscale_best_filter"]
    return f"{name.replace('_', '-')} {numbers[f'upscale_{name}_psnr_db']:.2f} dB"


_TRAINED = "trained in"

_COLUMNS: dict[str, str | Callable[[Mapping[str, Any]], str]] = {
    "fit": "{psnr_db:.2f} dB",
    "wrong pixels": "{wrong_pixels:,}",
    "redraw": "{upscale_psnr_db:.2f} dB",
    "uncorrected": "{upscale_uncorrected_psnr_db:.2f} dB",
    "best filter": _best_filter,
    "bits per pixel": "{bits_per_pixel:.3g}",
    "correct": "{accuracy:.1%}",
    "held-out correct": "{held_out_accuracy:.1%}",
    "error": "{rmse:.3g}",
    "held-out error": "{held_out_rmse:.3g}",
    _TRAINED: lambda numbers: duration(numbers["train_seconds"]),
}
"""Heads of columns, and how their cells are made from the metrics."""


def _cell(numbers: Mapping[str, Any], head: str) -> str:
    form = _COLUMNS[head]
    try:
        return form.format(**numbers) if isinstance(form, str) else form(numbers)
    except (KeyError, TypeError, AttributeError):  # the metrics lack the number, or have none
        return ""
