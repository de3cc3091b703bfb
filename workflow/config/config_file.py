"""The config file in use, and a check of it before Snakemake reads it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from snakemake.exceptions import WorkflowError

LARGEST_BYTES = 1 << 20
MOST_VALUES = 100_000
DEEPEST = 50

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def config_file(workflow_folder: Path) -> str:
    """Return config.yaml or config/config.yaml of the working directory, or else the shipped file.

    A file that would run code, or fill the memory, or has a key twice, whose first value would be
    lost, is refused.
    """
    own = Path("config.yaml"), Path("config/config.yaml")
    path = next(filter(Path.exists, own), workflow_folder / "config.yaml")
    if problem := problem_in(path):
        raise WorkflowError(f"{path}: {problem}")
    return str(path)


def problem_in(path: Path) -> str:
    """Return what is wrong with a config file; empty if nothing is, or if Snakemake reports it."""
    if not path.is_file() or path.stat().st_size > LARGEST_BYTES:
        return f"not a file of at most {LARGEST_BYTES >> 20} MiB; expected settings"
    nodes: list[tuple[tuple[str, ...], Any]]
    try:
        nodes = [((), yaml.compose(path.read_text(encoding="utf-8"), Loader=_LOADER))]
    except (yaml.YAMLError, ValueError, OSError):
        return ""
    count = 0
    while nodes:
        place, node = nodes.pop()
        count += 1
        if count > MOST_VALUES or len(place) > DEEPEST:
            found = f"more than {MOST_VALUES:,} values or {DEEPEST} levels, with aliases replaced"
            return f"{found}; expected settings"
        if isinstance(node, yaml.SequenceNode):
            nodes += [((*place, str(number)), item) for number, item in enumerate(node.value)]
        elif isinstance(node, yaml.MappingNode):
            lines: dict[str, int] = {}
            for key, value in node.value:
                name, line = str(key.value), key.start_mark.line + 1
                if name == "__use_yte__":
                    return f"line {line}: __use_yte__ would run code; expected settings; remove it"
                if name in lines and name != "<<":
                    return (
                        f"{'.'.join((*place, name))} occurs twice (lines {lines[name]} and {line});"
                        " expected each key and name once; remove or rename one"
                    )
                lines[name] = line
                nodes.append(((*place, name), value))
    return ""


def require_given_once(arguments: Sequence[str]) -> None:
    """Refuse a command line with --config twice: Snakemake would use only the last one."""
    if sum(word in ("--config", "-C") for word in arguments) > 1:
        raise WorkflowError(
            "--config: given several times, but only the last one would take effect; expected it"
            " once; write all settings after one --config"
        )
