"""Functions shared by all pages: filling a template, and formatting numbers."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from markupsafe import Markup, escape

from neuralfield.images.metrics import IDENTICAL_DB
from neuralfield.system.files import write_atomically
from neuralfield.system.input_files import read_json
from neuralfield.viewing.template import load_template

NOTHING = "–"


def write_page(
    report: Path,
    template: Path,
    *,
    metrics: Sequence[Path],
    settings: Mapping[str, Any],
    **values: Any,
) -> None:
    """Write one HTML file that needs no other files and no internet access.

    Files that the template includes are beside the template. `metrics` are the metrics files of all
    networks on the page: the versions of programs that they name are listed at the end of the page,
    together with the user's settings. `values` are further values for the template.
    """
    page = load_template(template, _FILTERS).render(
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


def device_name(name: str) -> str:
    """Return the name of a processor or GPU without trademark signs, clock rates and the like."""
    plain = re.sub(r"\((R|TM)\)|@.*|\b\d+-Core\b|\b(CPU|Processor)\b", " ", name)
    return " ".join(plain.split())


def duration(seconds: float) -> str:
    """Format a time in a suitable unit: 640 µs, 1.5 ms, 42 s, 3 min 20 s, 5 h 3 min."""
    if seconds < 60:
        for unit, size in (("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)):
            value = seconds / size
            if value < 999.5 or unit == "s":
                return f"{value:.0f}\u00a0{unit}" if value >= 10 else f"{value:.1f}\u00a0{unit}"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}\u00a0min {rest}\u00a0s"
    return f"{minutes // 60}\u00a0h {minutes % 60}\u00a0min"


def decibels(value_db: float) -> str:
    """Format 31.24 as 31.2 dB."""
    return "identical" if value_db >= IDENTICAL_DB else f"{value_db:.1f}\u00a0dB"


def _if_known(form: str | Callable[[Any], str]) -> Callable[[Any], str]:
    """Return a filter that formats a value, with typographic minus signs, or `NOTHING` for None."""
    text_of = form.format if isinstance(form, str) else form
    return lambda value: NOTHING if value is None else text_of(value).replace("-", "−")


_FILTERS = {
    "breakable": breakable,
    "count": _if_known("{:,}"),  # 98752 as 98,752
    "db": _if_known(decibels),
    "device": lambda name: NOTHING if name is None else device_name(name),
    "duration": _if_known(duration),
    "fine_db": _if_known("{:.2f}\u00a0dB"),  # 0.0512 as 0.05 dB, for small differences
    "gain": _if_known("{:+.1f}\u00a0dB"),  # with its sign
    "number": _if_known("{:.4g}"),  # 1234.5678 as 1235, and 0.012345 as 0.01234
    "share": _if_known("{:.1%}"),  # 0.9712 as 97.1%
    "similarity": _if_known("{:.3f}"),  # 0.97812 as 0.978
    "widths": lambda widths: " × ".join(map(str, widths)) or "none",  # as 16 by 8
}
