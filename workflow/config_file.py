"""Looking at config.yaml before Snakemake reads it, so that a file from anywhere can do no harm.

Snakemake would run the Python expressions of a file with ``__use_yte__``, and follow aliases of
aliases until the memory is full. Files named by ``--configfile`` it reads before any of this is
asked, so these have to be trusted.
"""

import json
import re
from pathlib import Path

import yaml

from startup import UserError

LARGEST_BYTES = 1 << 20
MOST_VALUES = 100_000
DEEPEST = 50
LONGEST_WORD = 4000
"""Without quotes: Python refuses to read longer numbers."""

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def config_file(workflow_folder: Path) -> str:
    """The config.yaml of the working directory, or else the one beside the Snakefile; checked.

    Parameters
    ----------
    workflow_folder : Path
        Where the Snakefile is.

    Raises
    ------
    UserError
        It is too large, nested too deep, no YAML, or a template whose expressions would be run.
    """
    places = (Path("config.yaml"), Path(workflow_folder, "config.yaml"))
    path = next(filter(Path.exists, places))
    require_harmless(path)
    return str(path)


def require_harmless(path: Path) -> None:
    """Refuse a config file that would run code or fill the memory; see `config_file`."""
    if not path.is_file() or path.stat().st_size > LARGEST_BYTES:
        found = f"no plain file of at most {LARGEST_BYTES >> 20} MiB"
        raise UserError(f"{path}: {found}; expected settings; see the workflow's own config.yaml")
    try:
        text = path.read_text(encoding="utf-8")
        if _is_shallow_json(text):  # YAML knows no tabs, JSON does
            return
        _require_few_values(text)
        yaml.load(text, Loader=_LOADER)  # what could not be built by Snakemake is named here
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}" if mark else "text"
        problem = getattr(error, "problem", None) or "characters that cannot be read"
        raise UserError(
            f"{path}: {line}: {problem}; expected YAML; look at the indentation, colons and quotes"
            " there and in the line before"
        ) from error
    except (ValueError, OSError) as error:
        raise UserError(f"{path}: {error}; expected settings in UTF-8 that can be read") from error
    except _Harmful as error:
        raise UserError(f"{path}: {error}; expected plain settings; remove it") from error


class _Harmful(Exception):
    """What no settings need."""


def _require_few_values(text: str) -> None:
    """Count the values that there are when every alias is replaced by what it stands for.

    Reads events one by one: nothing is built, and no depth of nesting overflows a stack.

    Raises
    ------
    _Harmful
        There are too many, they are nested too deep, or code would be run.
    """
    sizes: dict[str, int] = {}
    opened: list[tuple[str | None, int]] = []
    total = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                raise _Harmful(f"the alias *{event.anchor}, which stands for itself or nothing")
            total += sizes[event.anchor]
        elif isinstance(event, yaml.ScalarEvent):
            if event.value == "__use_yte__":
                raise _Harmful("__use_yte__, with which Snakemake would run code in this file")
            if not event.style and len(event.value) > LONGEST_WORD:
                raise _Harmful(f"a word or number of {len(event.value):,} characters")
            total += 1
            if event.anchor:
                sizes[event.anchor] = 1
        elif isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, total))
            total += 1
            if len(opened) > DEEPEST:
                raise _Harmful(f"more than {DEEPEST} levels of nesting")
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            if anchor:
                sizes[anchor] = total - before
        if total > MOST_VALUES:
            raise _Harmful(f"more than {MOST_VALUES:,} values, with all aliases (*) replaced")


def _is_shallow_json(text: str) -> bool:
    depth = deepest = 0
    for bracket in re.findall(r"[\[\]{}]", re.sub(r'"(?:\\.|[^"\\])*"', "", text)):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    try:
        return deepest <= DEEPEST and isinstance(json.loads(text), dict)
    except ValueError:
        return False
