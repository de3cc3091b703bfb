"""Files that the settings name: in the working directory, or else beside the Snakefile."""

import os
from pathlib import Path

from neuralfield.errors import ConfigError

ROOT = Path(__file__).parent.parent


def find_file(path: str) -> Path | None:
    """A file as the user wrote it, or else beside the Snakefile; None where there is none."""
    try:
        given = Path(path).expanduser()
        return next((place for place in (given, ROOT / given) if place.is_file()), None)
    except (OSError, ValueError, RuntimeError):  # too long, no text, of an unknown user
        return None


def require_file(path: str, where: str, what: str) -> Path:
    """A file that has to be there.

    Parameters
    ----------
    path : str
        As the user wrote it.
    where, what : str
        Where that stands, and what it should be the path of, for the message.

    Raises
    ------
    ConfigError
    """
    found = find_file(path)
    if found is None:
        state = "is a folder" if os.path.isdir(os.path.expanduser(path)) else "no such file"  # noqa: PTH111, PTH112
        raise ConfigError(
            where,
            f"{path}: {state}",
            f"the path of {what}",
            f"write it relative to the working directory, {Path.cwd()}",
        )
    return found
