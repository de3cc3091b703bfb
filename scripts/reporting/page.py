"""Functions shared by all pages: filling a template, and formatting numbers."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from markupsafe import Markup, escape

from neuralfield.system.files import write_atomically
from neuralfield.system.input_files import read_json
from neuralfield.viewing.template import load_template

NOTHING = "–"


def write_page(
    report: Path,
    template: Path,
    filters: Mapping[str, Callable[..., Any]],
    *,
    metrics: Sequence[Path],
    settings: Mapping[str, Any],
    **values: Any,
) -> None:
    """Write one HTML file that needs no other files and no internet access.

    Files that the template includes are beside the template; `filters` are the additional filters
    of this page. `metrics` are the metrics files of all networks on the page: the versions of
    programs that they name are listed at the end of the page, together with the user's settings.
    `values` are further values for the template.
    """
    own = {"breakable": breakable, "count": in_full, "device": device_name, "duration": duration}
    page = load_template(template, own | dict(filters)).render(
        versions=versions(metrics),
        settings=yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=True),
        nothing=NOTHING,
        **values,
    )
    write_atomically(report, page.encode())


def versions(metrics: Sequence[Path]) -> dict[str, str]:
    """Return the versions of each program that made the networks, as text."""
    found: dict[str, list[str]] = {}
    for path in metrics:
        for name, version in (read_json(path, ["versions"])["versions"] or {}).items():
            if version not in found.setdefault(name, []):
                found[name].append(version)
    return {name: ", ".join(known) for name, known in found.items()}


def breakable(name: str) -> Markup:
    """Allow line breaks after the underscores of a name."""
    return escape(name).replace("_", Markup("_<wbr>"))


def in_percent(value: float | None) -> str:
    """Format 0.9712 as 97.1%."""
    return NOTHING if value is None else f"{100 * value:.1f}%"


def in_full(value: int | None) -> str:
    """Format 98752 as 98,752."""
    return NOTHING if value is None else f"{value:,}"


def device_name(name: str | None) -> str:
    """Return the name of a processor or GPU without trademark signs, clock rates and the like."""
    if name is None:
        return NOTHING
    plain = re.sub(r"\((R|TM)\)|@.*|\b\d+-Core\b|\b(CPU|Processor)\b", " ", name)
    return " ".join(plain.split())


def duration(seconds: float | None) -> str:
    """Format a time in a suitable unit: 640 µs, 1.5 ms, 42 s, 3 min 20 s, 5 h 3 min."""
    if seconds is None:
        return NOTHING
    if seconds < 60:
        for unit, size in (("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)):
            value = seconds / size
            if value < 999.5 or unit == "s":
                return f"{value:.0f}\u00a0{unit}" if value >= 10 else f"{value:.1f}\u00a0{unit}"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}\u00a0min {rest}\u00a0s"
    return f"{minutes // 60}\u00a0h {minutes % 60}\u00a0min"
