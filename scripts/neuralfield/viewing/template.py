"""Jinja templates of pages, and conversion of names to titles."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

TEMPLATES = Path(__file__).parent / "template"


def load_template(path: Path, filters: Mapping[str, Callable[..., Any]] | None = None) -> Template:
    """Load a template that escapes its values; files that it includes are in the same folder."""
    environment = Environment(
        loader=FileSystemLoader(path.parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= filters or {}
    return environment.get_template(path.name)


def words_of(name: str) -> str:
    """Convert a name to a title: noisy_curve to Noisy curve."""
    words = name.replace("_", " ").replace("-", " ").strip()
    return words[:1].upper() + words[1:]
