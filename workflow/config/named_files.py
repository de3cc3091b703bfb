"""Files named in the settings: searched in the working directory, then beside the Snakefile."""

import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

from neuralfield.system.errors import ConfigError

ROOT = Path(__file__).parents[2]


def find_file(path: str) -> Path | None:
    """Return a file as the user wrote it, or else beside the Snakefile; None if neither exists."""
    return _find(path, Path.is_file)


def find_folder(path: str) -> Path | None:
    """Return a folder as `find_file` does."""
    return _find(path, Path.is_dir)


def _find(path: str, is_right: Callable[[Path], bool]) -> Path | None:
    try:
        given = Path(path).expanduser()
        return next((place for place in (given, ROOT / given) if is_right(place)), None)
    except (OSError, ValueError, RuntimeError):  # too long, not valid text, or ~ of an unknown user
        return None


def missing_file(path: str, where: str, what: str) -> Iterator[ConfigError]:
    """Yield an error if a file does not exist or cannot be read.

    `where` is the place of the setting, and `what` describes the expected file.
    """
    found = find_file(path)
    if found is None:
        state, remedy = "no such file", f"write it relative to the working directory, {Path.cwd()}"
        if os.path.isdir(os.path.expanduser(path)):  # noqa: PTH111, PTH112
            state, remedy = "is a folder", "name a file in it"
        yield ConfigError(where, f"{path}: {state}", f"the path of {what}", remedy)
    elif not os.access(found, os.R_OK):
        state, remedy = "no permission to read it", f"allow it (chmod u+r {shlex.quote(path)})"
        yield ConfigError(where, f"{path}: {state}", "a file that can be read", remedy)


def result_of_itself(path: str, results: str, where: str) -> Iterator[ConfigError]:
    """Yield an error if a source is in the folder of the results that are made from it.

    Snakemake would remove the source before the job that reads it.
    """
    if Path(results).resolve() in Path(path).resolve().parents:
        expected = f"a file outside of {results}, where the results of this name are written"
        yield ConfigError(where, path, expected, "copy it elsewhere, or choose another name")
