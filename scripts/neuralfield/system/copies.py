"""Copies of results, from which deleted outputs can be restored.

A workflow manager deletes the outputs of a job before the job starts, and again if it fails.
Results are therefore also stored in a hidden folder, where the name of each file is its SHA-256.
A job that would make a result from the same inputs again restores it instead.
"""

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path

from neuralfield.system.errors import NeuralfieldError
from neuralfield.system.files import copy_file, link_or_copy, storage_errors, visible_files
from neuralfield.system.ledger import Entry, digests_of, read_ledger, write_ledger
from neuralfield.system.provenance import sha256_of

FOLDER_NAME = ".kept"

_LEDGER = ".ledger"
"""Suffix of the ledgers, which no output has."""

TRAINING = "training"
"""Name of the result of a training among the copies in its folder."""


class Copies:
    """The copies of one result, with a ledger of its outputs.

    `made_from` identifies inputs and settings, and `say` is called with lines for the user. Files
    in folders are hard links. Single files are copied, so that damage to an output does not affect
    the copy, unless `as_links` is set to save disk space.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        made_from: str,
        say: Callable[[str], None],
        *,
        as_links: bool = False,
    ) -> None:
        self.folder, self.made_from, self.say, self.as_links = folder, made_from, say, as_links
        self._ledger = folder / f"{name}{_LEDGER}"

    def restore(self, outputs: Mapping[str, Path]) -> bool:
        """Restore outputs by name; return whether they were restored.

        They are not if they were made from something else, or the copies are damaged.
        """
        if not self._ledger.exists():
            return False
        try:
            entries = read_ledger(self._ledger)
            if {entry.made_from for entry in entries.values()} != {self.made_from}:
                return False
            if entries.keys() != outputs.keys():
                raise OSError(None, "they are of other outputs")
            digests = {
                outputs[name] / file: digest
                for name, entry in entries.items()
                for file, digest in entry.files.items()
            }
            for digest in set(digests.values()):
                if sha256_of(self.folder / digest) != digest:
                    raise OSError(None, f"{digest[:10]}... does not match its checksum")
        except (OSError, NeuralfieldError) as error:
            self.say(f"{self._ledger}: stored copies are damaged ({error}); making them anew")
            return False
        with storage_errors():
            for folder in filter(Path.is_dir, outputs.values()):
                for path in set(visible_files(folder)) - set(digests):
                    path.unlink(missing_ok=True)
            for path, digest in digests.items():
                is_single = path in outputs.values()
                publish = link_or_copy if self.as_links or not is_single else copy_file
                publish(self.folder / digest, path)
                if is_single:
                    path.touch()  # a workflow manager compares its time with those of its inputs
        return True

    def store(self, outputs: Mapping[str, Path]) -> bool:
        """Store copies of outputs that have just been made; return whether this has succeeded.

        Earlier copies are removed after all new ones are stored. A failure is only logged.
        """
        try:
            earlier = self._stored(self._ledger.name)
            entries: dict[str, Entry] = {}
            stored: set[str] = set()
            # folders first, because the last snapshot is often identical to the network
            for name, path in sorted(outputs.items(), key=lambda output: output[1].is_file()):
                entries[name] = Entry(digests_of(path), self.made_from)
                for file, digest in entries[name].files.items():
                    if digest not in stored:
                        publish = link_or_copy if self.as_links or path.is_dir() else copy_file
                        publish(path / file, self.folder / digest)
                        stored.add(digest)
            write_ledger(self._ledger, entries)
            for digest in earlier - self._stored(f"*{_LEDGER}"):
                (self.folder / digest).unlink(missing_ok=True)
        except (OSError, NeuralfieldError) as error:
            self.say(f"{self.folder}: no copies are stored for a later restore ({error})")
            return False
        return True

    def _stored(self, ledgers: str) -> set[str]:
        """Return the digests in the ledgers of a name pattern."""
        digests = set()
        for path in self.folder.glob(ledgers):
            with contextlib.suppress(NeuralfieldError):  # a damaged one lists nothing
                for entry in read_ledger(path).values():
                    digests |= set(entry.files.values())
        return digests
