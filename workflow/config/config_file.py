"""Checks of config files before Snakemake reads them, so that an untrusted file does no harm.

Snakemake would run the Python expressions of a file with ``__use_yte__``, and expand nested aliases
until memory is exhausted. Snakemake reads files named by ``--configfile`` before these checks run,
so those files have to be trusted.

A duplicate key is refused in every config file and on the command line, because YAML and Snakemake
would silently use the last of the two values.
"""

from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

import yaml

from jobs.startup import UserError

LARGEST_BYTES = 1 << 20
MOST_VALUES = 100_000
DEEPEST = 50
LONGEST_WORD = 4000
"""Maximum length of a value without quotes: Python refuses to read longer numbers."""

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def config_file(workflow_folder: Path, *, is_module: bool = False) -> str:
    """Return config.yaml or config/config.yaml of the working directory, or else the shipped file.

    If this workflow is a module, the files of the working directory belong to the workflow that
    imports it, and are ignored.

    A file that is too large, nested too deeply, not YAML, or a template whose expressions would be
    run is refused.
    """
    own = [] if is_module else [Path("config.yaml"), Path("config/config.yaml")]
    path = next(filter(Path.exists, own), workflow_folder / "config.yaml")
    require_harmless(path)
    return str(path)


def require_harmless(path: Path) -> None:
    """Refuse a config file that would run code or fill the memory; see `config_file`."""
    if not path.is_file() or path.stat().st_size > LARGEST_BYTES:
        found = f"not a regular file of at most {LARGEST_BYTES >> 20} MiB"
        raise UserError(f"{path}: {found}; expected settings; see the workflow's own config.yaml")
    try:
        text = path.read_text(encoding="utf-8")
        _require_few_values(text)
        _require_different_nodes(yaml.compose(text, Loader=_LOADER))
        yaml.load(text, Loader=_LOADER)  # reports values that Snakemake could not construct
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}" if mark else "text"
        problem = getattr(error, "problem", None) or "characters that cannot be read"
        raise UserError(
            f"{path}: {line}: {problem}; expected YAML; check the indentation, colons and quotes"
            " there and in the line before"
        ) from error
    except (ValueError, OSError) as error:
        raise UserError(f"{path}: {error}; expected settings in UTF-8 that can be read") from error
    except _Harmful as error:
        raise UserError(f"{path}: {error}; expected plain settings; remove it") from error
    except _Repeated as error:
        raise UserError(f"{path}: {error}; {_ONCE}") from error


def require_keys_once(path: Path) -> None:
    """Refuse a file named by ``--configfile`` that has a duplicate key."""
    text = path.read_text(encoding="utf-8")
    if "__use_yte__" in text:  # a template may name a key in each of several cases
        return
    try:
        _require_different_nodes(yaml.compose(text, Loader=_LOADER))
    except _Repeated as error:
        raise UserError(f"{path}: {error}; {_ONCE}") from error
    except yaml.YAMLError:
        pass  # JSON with tabs, which Snakemake has read already


def require_given_once(arguments: Sequence[str]) -> None:
    """Refuse a command line that sets a key twice: Snakemake would use only the last value."""
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config", "-C", nargs="*", action="append", default=[])
    groups: list[list[str]] = parser.parse_known_args(arguments)[0].config
    if len(groups) > 1:
        raise UserError(
            f"--config: given {len(groups)} times, but only the last one would take effect;"
            " expected it once; write all settings after one --config"
        )
    seen = set()
    for entry in groups[0] if groups else ():
        key, _, value = entry.partition("=")
        if key in seen:
            raise UserError(f"--config: {key} is set twice; {_ONCE}")
        seen.add(key)
        try:
            _require_different_nodes(yaml.compose(value, Loader=_LOADER), (key,))
        except _Repeated as error:
            raise UserError(f"--config: {error}; {_ONCE}") from error
        except yaml.YAMLError:
            pass  # Snakemake reads such a value as text


class _Harmful(Exception):
    """Content that is never needed in settings and could do harm."""


class _Repeated(Exception):
    """A duplicate key in a mapping."""


_ONCE = "expected each key and name once; remove or rename one"


def _require_different_nodes(node: yaml.Node | None, place: tuple[str, ...] = ()) -> None:
    """Refuse composed YAML in which a mapping has a duplicate key."""
    if isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            _require_different_nodes(item, (*place, str(number)))
    elif isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, value in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in lines and name != "<<":
                where = ".".join((*place, name))
                raise _Repeated(f"{where} occurs twice (lines {lines[name]} and {line})")
            lines[name] = line
            _require_different_nodes(value, (*place, name))


def _require_few_values(text: str) -> None:
    """Refuse YAML that has too many values after every alias is replaced by the value it refers to.

    The parser's events are read one by one, so that no values are constructed and deep nesting
    cannot overflow the stack.
    """
    sizes: dict[str, int] = {}
    opened: list[tuple[str | None, int]] = []
    total = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                raise _Harmful(f"the alias *{event.anchor}, which refers to itself or to nothing")
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
