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
    if "psnr_db" in numbers:
        parts = [f"fit {numbers['psnr_db']:.2f} dB"]
        if (wrong := numbers.get("wrong_pixels")) is not None:
            parts.append(count(wrong, "wrong pixel"))
        if (redraw_db := numbers.get("upscale_psnr_db")) is not None:
            best = _best_filter(numbers)
            parts.append(f"redraw {redraw_db:.2f} dB" + (f" (best filter: {best})" if best else ""))
        return ", ".join(parts)
    for measure, form in (("accuracy", "{:.1%} correct"), ("rmse", "error {:.3g}")):
        if measure in numbers and numbers.get("measure", measure) == measure:
            text = form.format(numbers[measure])
            held_out = numbers.get(f"held_out_{measure}")
            return text if held_out is None else f"{text}, {form.format(held_out)} on held-out data"
    return ""


def table(folders: Iterable[Path]) -> list[str]:
    """Return a table of the networks of images in these folders, without empty columns."""
    rows = [
        (folder.parent.name, folder.name, *(_cell(numbers, head) for head in _COLUMNS))
        for folder in folders
        if "psnr_db" in (numbers := read_json(folder / "metrics.json"))
    ]
    if not rows:
        return []
    columns = list(zip((*_NAMES, *_COLUMNS), *rows[:_MOST_ROWS], strict=True))
    aligned = []
    for head, *cells in filter(lambda column: any(column[1:]), columns):
        width = max(map(len, (head, *cells)))
        align = str.ljust if head in _NAMES else str.rjust
        aligned.append([align(cell, width) for cell in (head, *cells)])
    lines = ["  ".join(row).rstrip() for row in zip(*aligned, strict=True)]
    return lines + [f"... and {len(rows) - _MOST_ROWS} more"] * (len(rows) > _MOST_ROWS)


def _best_filter(numbers: Mapping[str, Any]) -> str:
    """Return the filter closest to the source and its PSNR in dB; empty if it is not known."""
    name = numbers.get("upscale_best_filter")
    level_db = numbers.get(f"upscale_{name}_psnr_db")
    return "" if level_db is None else f"{str(name).replace('_', '-')} {level_db:.2f}"


_COLUMNS: dict[str, str | Callable[[Mapping[str, Any]], str]] = {
    "fit, dB": "{psnr_db:.2f}",
    "wrong pixels": "{wrong_pixels:,}",
    "redraw, dB": "{upscale_psnr_db:.2f}",
    "uncorrected, dB": "{upscale_uncorrected_psnr_db:.2f}",
    "best filter, dB": _best_filter,
    "trained in": lambda numbers: duration(numbers["train_seconds"]),
}
"""Heads of columns, and how their cells are made from the metrics."""


def _cell(numbers: Mapping[str, Any], head: str) -> str:
    form = _COLUMNS[head]
    try:
        return form.format(**numbers) if isinstance(form, str) else form(numbers)
    except (KeyError, TypeError):  # the metrics lack the number, or have none
        return ""
