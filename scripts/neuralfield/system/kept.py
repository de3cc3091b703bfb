"""Copies of the results of finished trainings, from which deleted outputs can be restored.

A workflow manager deletes the outputs of a job before the job starts, and again if it fails.
Published results are therefore also kept in a hidden folder, where the name of each file is its
SHA-256, with a JSON file that lists them. Single files are copied, so that damage to the outputs
does not affect them; files in folders are hard links. A later training with the same fingerprint
publishes these files again without training.
"""

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

from neuralfield.system.errors import StorageError
from neuralfield.system.files import (
    read_whole,
    replacing,
    storage_errors,
    visible_files,
    write_json,
)
from neuralfield.system.provenance import sha256_of

FOLDER_NAME = ".kept"
_TRAIN_ANEW = "train_anew"
_MOST_LIST_BYTES = 1 << 20
_NAME_PART = re.compile(r"\w[\w.-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class KeptResults:
    """The kept results of a training; the `fingerprint` is that of its settings and data."""

    def __init__(
        self, folder: Path, fingerprint: str, steps: int, say: Callable[[str], None]
    ) -> None:
        self.folder, self.fingerprint, self.say = folder, fingerprint, say
        self._list = folder / f"{fingerprint}_{steps:08d}.json"

    def restore(self, outputs: Mapping[str, Path]) -> bool:
        """Publish the kept results again; return whether they were published.

        They are not published if they are damaged or a new training is requested.
        """
        if not self._list.exists() or (self.folder / _TRAIN_ANEW).exists():
            return False
        try:
            digests = self._read_list(outputs)
            for digest in set(digests.values()):
                if sha256_of(self.folder / digest) != digest:
                    raise ValueError(f"{digest[:10]}... does not match its checksum")
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            self.say(f"{self._list}: kept results are damaged ({error}); training anew")
            return False
        targets = {_target(outputs, name): digest for name, digest in digests.items()}
        with storage_errors():
            for folder in filter(Path.is_dir, outputs.values()):
                for path in set(visible_files(folder)) - set(targets):
                    path.unlink(missing_ok=True)
            for target, digest in targets.items():
                is_single = target in outputs.values()
                _put(self.folder / digest, target, as_link=not is_single)
        self.say(f"restoring the results that are kept in {self.folder}; no training is needed")
        return True

    def keep(self, outputs: Mapping[str, Path]) -> None:
        """Keep published results; if that fails, log it and continue.

        Results of other settings are removed after all new ones are stored.
        """
        try:
            digests: dict[str, str] = {}
            # folders first, because the last snapshot is often identical to the network
            for name, path in sorted(outputs.items(), key=lambda output: output[1].is_file()):
                for file in visible_files(path) if path.is_dir() else (path,):
                    digest = sha256_of(file)
                    if digest not in digests.values():
                        _put(file, self.folder / digest, as_link=path.is_dir())
                    digests["/".join((name, *file.relative_to(path).parts))] = digest
            write_json(self._list, {"run": self.fingerprint, "files": digests}, indent=1)
            self._remove_others({self._list.name, *digests.values()})
        except (OSError, StorageError, ValueError) as error:
            self.say(f"{self.folder}: results are not kept for a later restore ({error})")

    def _read_list(self, outputs: Mapping[str, Path]) -> dict[str, str]:
        listed = json.loads(read_whole(self._list, _MOST_LIST_BYTES))
        digests = dict(listed["files"])
        for name, digest in digests.items():
            if not all(map(_NAME_PART.fullmatch, name.split("/"))) or not _SHA256.fullmatch(digest):
                raise ValueError("it lists a file that is not a result")
        if {name.split("/")[0] for name in digests} != set(outputs):
            raise ValueError("it lists other results")
        return digests

    def _remove_others(self, needed: set[str]) -> None:
        """Remove files of other settings, and the marker file of a new training."""
        for path in self.folder.iterdir():
            if path.name not in needed:
                path.unlink(missing_ok=True)


def has_kept_results(folder: Path) -> bool:
    """Check whether a folder contains kept results of a finished training."""
    return any(folder.glob("*.json"))


def mark_to_train_anew(folder: Path, is_wanted: bool) -> None:
    """Set or clear a marker file with which the next training ignores kept results."""
    mark = folder / _TRAIN_ANEW
    with contextlib.suppress(OSError):  # there are no kept results, or the folder is not writable
        if is_wanted:
            mark.touch()
        else:
            mark.unlink()


def _target(outputs: Mapping[str, Path], name: str) -> Path:
    first, *others = PurePosixPath(name).parts
    return outputs[first].joinpath(*others)


def _put(source: Path, target: Path, *, as_link: bool) -> None:
    """Create a second path for a file: a hard link, or a copy if links are not possible."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if as_link:
        temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        try:
            if target.exists() and target.samefile(source):
                return
            temporary.unlink(missing_ok=True)  # from a killed process with the same number
            os.link(source, temporary)
            temporary.replace(target)  # not synced; a link lost in a power cut is created again
            return
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()
    with replacing(target) as copy:
        shutil.copyfile(source, copy)
