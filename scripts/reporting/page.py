"""What all pages share: how a template is filled, and how numbers are written in it."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from neuralfield.system.input_files import read_json

NOTHING = "–"


def render_page(
    template: Path,
    filters: Mapping[str, Callable[..., Any]],
    *,
    metrics: Sequence[Path],
    settings: Mapping[str, Any],
    **values: Any,
) -> str:
    """Fill a template.

    Parameters
    ----------
    template : Path
        The page; what it includes lies beside it.
    filters : mapping of name to callable
        Of this page alone.
    metrics : sequence of Path
        Of all networks on the page: the versions that made them are named at its end.
    settings : mapping
        What the user configured, printed at the end of the page.
    **values
        What else the template knows.
    """
    environment = Environment(
        loader=FileSystemLoader(template.parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "breakable": breakable,
        "count": in_full,
        "device": device_name,
        "duration": duration,
        **filters,
    }
    return environment.get_template(template.name).render(
        versions=versions(metrics),
        settings=yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=True),
        nothing=NOTHING,
        **values,
    )


def versions(metrics: Sequence[Path]) -> dict[str, str]:
    """Every program's versions over all networks, in words."""
    found: dict[str, list[str]] = {}
    for path in metrics:
        for name, version in (read_json(path, ["versions"])["versions"] or {}).items():
            if version not in found.setdefault(name, []):
                found[name].append(version)
    return {name: ", ".join(known) for name, known in found.items()}


def breakable(name: str) -> Markup:
    """A name that may go on in the next line after an underscore."""
    return escape(name).replace("_", Markup("_<wbr>"))


def words_of(name: str) -> str:
    """A name as a title: noisy_curve as Noisy curve."""
    words = name.replace("_", " ").replace("-", " ").strip()
    return words[:1].upper() + words[1:]


def in_percent(value: float | None) -> str:
    """0.9712 as 97.1%."""
    return NOTHING if value is None else f"{100 * value:.1f}%"


def in_full(value: int | None) -> str:
    """98752 as 98,752."""
    return NOTHING if value is None else f"{value:,}"


def device_name(name: str | None) -> str:
    """A processor's or card's name without what makers put between the words."""
    if name is None:
        return NOTHING
    plain = re.sub(r"\((R|TM)\)|@.*|\b\d+-Core\b|\b(CPU|Processor)\b", " ", name)
    return " ".join(plain.split())


def duration(seconds: float | None) -> str:
    """Time in the unit that suits it: 640 µs, 1.5 ms, 42 s, 3 min 20 s, 5 h 3 min."""
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
