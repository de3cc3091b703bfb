"""Kept outputs of jobs, with a description of the inputs that they were made from.

A workflow manager deletes all outputs of a job before the job starts. Outputs whose inputs have not
changed are restored from a hidden folder that contains hard links to them.
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
    """Restore a file if it was made from the inputs of `description` and has not changed since."""
    kept = path.parent / FOLDER_NAME / path.name
    with suppress(OSError):
        if _recorded(kept).get(kept.name) == [description, sha256_of(kept)]:
            path.unlink(missing_ok=True)
            os.link(kept, path)
            path.touch()  # because a workflow manager compares its time with those of its inputs
            return True
    return False


def keep(path: Path, description: str) -> None:
    """Keep a file that has just been made; errors are ignored, because it can be made again."""
    kept = path.parent / FOLDER_NAME / path.name
    with suppress(NeuralfieldError, OSError):
        kept.parent.mkdir(exist_ok=True)
        kept.unlink(missing_ok=True)
        os.link(path, kept)
        recorded = _recorded(kept) | {kept.name: [description, sha256_of(kept)]}
        write_json(kept.with_name(RECORD_NAME), recorded, indent=1)


def forget_kept(folder: Path) -> None:
    """Remove the record of kept files in a folder, so that they are made again."""
    with suppress(OSError):
        (folder / FOLDER_NAME / RECORD_NAME).unlink()


def _recorded(kept: Path) -> dict[str, Any]:
    with suppress(NeuralfieldError):  # missing or damaged: nothing is recorded
        return read_json(kept.with_name(RECORD_NAME))
    return {}
