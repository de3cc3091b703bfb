"""Lists of the files that trainings of tiles wrote, with one list for several neighbouring tiles.

A workflow manager takes long to check each file of each tile if there are thousands. It checks the
lists instead, which contain the digests of the files, so that changed files are detected.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from neuralfield.images.tiling import Tile, Tiling
from neuralfield.system.errors import InputError
from neuralfield.system.files import visible_files, write_json
from neuralfield.system.input_files import read_json
from neuralfield.system.provenance import remedy_for, sha256_of

MOST_LISTS = 128
"""Maximum number of lists for each network. It must not depend on settings or on the machine:
otherwise a workflow would request other lists for tiles that are already trained."""

_FORMAT = 1
_PATH = re.compile(r"\w[\w.-]*(/\w[\w.-]*)*")
_SHA256 = re.compile(r"[0-9a-f]{64}")

Files = dict[str, str]
"""The SHA-256 of each file by its path relative to the tile's folder."""


def tiles_of_lists(tiling: Tiling) -> list[tuple[Tile, ...]]:
    """Return the tiles of each list, row by row; there is one tile per list if there are few."""
    tiles = tuple(tiling)
    lists = min(len(tiles), MOST_LISTS)
    ends = [number * len(tiles) // lists for number in range(lists + 1)]
    return [tiles[first:end] for first, end in pairwise(ends)]


def digests_of(folder: Path, names: Iterable[str]) -> Files:
    """Return the digests of files in a tile's folder, and of all visible files in subfolders."""
    files = [
        file
        for path in (folder / name for name in names)
        for file in (visible_files(path) if path.is_dir() else [path])
    ]
    return {file.relative_to(folder).as_posix(): sha256_of(file) for file in files}


def write_list(path: Path, files: Mapping[str, Files]) -> None:
    """Write the list of the files of some tiles, by tile name."""
    write_json(path, {"format": _FORMAT, "tiles": dict(files)}, indent=1)


def read_list(path: Path) -> dict[str, Files]:
    """Read the files of each tile; raises `InputError` if the list is missing or damaged."""
    content = read_json(path, ("tiles",), {"format": _FORMAT})
    try:
        tiles = {name: dict(files) for name, files in content["tiles"].items()}
        for name, digest in (item for files in tiles.values() for item in files.items()):
            if not _PATH.fullmatch(name) or not _SHA256.fullmatch(digest):
                raise ValueError(f"it has a file {name!r}")
    except (AttributeError, TypeError, ValueError) as error:
        found = f"is damaged ({type(error).__name__}: {error})"
        raise InputError(
            str(path), found, "a list of the files of tiles", remedy_for(path)
        ) from error
    return tiles


def changes_since(path: Path, tiles: Sequence[Tile]) -> Iterator[str]:
    """Yield descriptions of files of tiles that are missing, or changed since the list was written.

    The folders of the tiles are next to the list. Files that are older than the list are not read.
    """
    try:
        listed, made_at_ns = read_list(path), path.stat().st_mtime_ns
    except (InputError, OSError) as error:
        yield str(error)
        return
    if list(listed) != [tile.name for tile in tiles]:
        yield f"{path} belongs to other tiles"
        return
    for tile, files in listed.items():
        for name, digest in files.items():
            file = path.parent / tile / name
            try:
                if file.stat().st_mtime_ns > made_at_ns and sha256_of(file) != digest:
                    yield f"{file} has changed"
            except OSError as error:
                yield f"{file} cannot be read ({error.strerror})"
