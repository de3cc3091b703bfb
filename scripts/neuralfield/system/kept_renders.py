"""Files that are kept beside the outputs of a job, with a record of what they were made from.

A workflow manager deletes all outputs of a job before the job starts. Those that would be made from
the same again are put back from a hidden folder, where they are hard links.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from neuralfield.system.errors import NeuralfieldError
from neuralfield.system.files import write_json
from neuralfield.system.input_files import read_json
from neuralfield.system.provenance import sha256_of

FOLDER_NAME = ".renders"
RECORD_NAME = "made_from.json"


def put_back(path: Path, description: str) -> bool:
    """Put a file back if it was made from what `description` says, and not changed since."""
    kept = path.parent / FOLDER_NAME / path.name
    with suppress(OSError):
        if _recorded(kept).get(kept.name) == [description, sha256_of(kept)]:
            path.unlink(missing_ok=True)
            os.link(kept, path)
            path.touch()  # a workflow manager compares it with the times of what it is made from
            return True
    return False


def keep(path: Path, description: str) -> None:
    """Keep a file that has just been made; where that fails, it will be made again."""
    kept = path.parent / FOLDER_NAME / path.name
    with suppress(NeuralfieldError, OSError):
        kept.parent.mkdir(exist_ok=True)
        kept.unlink(missing_ok=True)
        os.link(path, kept)
        recorded = _recorded(kept) | {kept.name: [description, sha256_of(kept)]}
        write_json(kept.with_name(RECORD_NAME), recorded, indent=1)


def forget_kept(folder: Path) -> None:
    """Let all files of a folder be made again."""
    with suppress(OSError):
        (folder / FOLDER_NAME / RECORD_NAME).unlink()


def _recorded(kept: Path) -> dict[str, Any]:
    with suppress(NeuralfieldError):  # missing or damaged: nothing is recorded
        recorded = read_json(kept.with_name(RECORD_NAME))
        return recorded if isinstance(recorded, dict) else {}
    return {}
