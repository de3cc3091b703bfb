"""The ledger of what was made: which files belong to a result, and their SHA-256.

A ledger is a JSON file with an entry for each result. One lists the outputs of all rules, one the
files of some tiles, and one the copies of a result that can be restored.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from neuralfield.system.errors import InputError
from neuralfield.system.files import read_whole, visible_files, write_atomically
from neuralfield.system.provenance import json_digest, remedy_for, sha256_of

_FORMAT = 2
_LARGEST_BYTES = 64 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}")

Files = dict[str, str]
"""The SHA-256 of each file of a result by its path relative to the result, which is ``.`` if the
result is a single file."""


@dataclass(frozen=True)
class Entry:
    """A result: its files, what they were made from, the rule that made them, and when."""

    files: Files
    made_from: str = ""  # a digest or description of the inputs and settings
    rule: str = ""
    made_at_s: float = 0.0  # modification time, in seconds since 1970

    def __post_init__(self) -> None:
        """Raise ValueError for what only a damaged or malicious ledger contains."""
        for name, digest in self.files.items():
            _require_inside(name)
            if not _SHA256.fullmatch(digest):
                raise ValueError(f"{name} has no SHA-256")


def digests_of(path: Path, names: Iterable[str] = (".",)) -> Files:
    """Return the digests of a result that is a file, or of files and folders in its folder.

    Hidden files, and files in hidden folders, do not count.
    """
    files = [
        file
        for part in (path / name for name in names)
        for file in (visible_files(part) if part.is_dir() else [part])
    ]
    return {file.relative_to(path).as_posix(): sha256_of(file) for file in files}


def differences(
    path: Path, entry: Entry, since_ns: float = -math.inf
) -> Iterator[tuple[Path, str]]:
    """Yield each file of a result at `path` that differs from its entry, and a description of how.

    Files that have not been modified after `since_ns` are not read.
    """
    for name, digest in entry.files.items():
        file = path / name
        try:
            if file.stat().st_mtime_ns > since_ns and sha256_of(file) != digest:
                yield file, "has changed"
        except FileNotFoundError:
            yield file, "there is no such file"
        except OSError as error:
            yield file, f"cannot be read ({error.strerror})"


def write_ledger(path: Path, entries: Mapping[str, Entry]) -> None:
    """Write a ledger, with a line for each result in the order of `entries`."""
    plain = {
        name: {key: value for key, value in asdict(entry).items() if value}
        for name, entry in entries.items()
    }
    lines = ",\n".join(f"  {json.dumps(n)}: {json.dumps(entry)}" for n, entry in plain.items())
    # this checksum distinguishes damage of the ledger from damage of a result
    head = f'"format": {_FORMAT}, "sha256": "{json_digest(plain)}"'
    write_atomically(path, f'{{{head}, "entries": {{\n{lines}\n}}}}\n'.encode())


def read_ledger(path: Path) -> dict[str, Entry]:
    """Read the entries of a ledger; raises `InputError` if it is missing or damaged."""
    try:
        content = json.loads(read_whole(path, _LARGEST_BYTES))
        plain = content["entries"]
        if content["format"] != _FORMAT or content["sha256"] != json_digest(plain):
            raise ValueError("its format is unknown, or its checksum does not match")
        for name in plain:
            _require_inside(name)
        return {name: Entry(**entry) for name, entry in plain.items()}
    except OSError as error:
        found = f"cannot be read ({error.strerror})"
        remedy = remedy_for(path, is_missing=isinstance(error, FileNotFoundError))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        found, remedy = f"is damaged ({type(error).__name__}: {error})", remedy_for(path)
    raise InputError(str(path), found, "a list of the files of results", remedy)


def _require_inside(name: str) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{name!r} is outside of the folder")
