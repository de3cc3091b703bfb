"""The state from which a training resumes, in a folder that is not one of the outputs.

A workflow manager deletes the outputs of a failed job, so files that must survive a crash are in
this folder. File names contain a fingerprint of settings and data, so that states of other
trainings are ignored. The last two states are kept; if the last one is damaged, only the steps
since the one before are lost.
"""

import contextlib
import errno
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from neuralfield.system.checkpoint import list_snapshots, load_arrays, save_arrays
from neuralfield.system.errors import CheckpointError
from neuralfield.system.files import storage_errors, try_lock
from neuralfield.system.interruption import StopSignals

SnapshotReader = Callable[[Path, int], object]
"""A function that reads the snapshot of a step; raises `CheckpointError` if it is damaged or of
another training."""

_STATE_NAME = re.compile(r"state_([0-9a-f]{16})_(\d{8})\.safetensors")
_KEPT = 2
_SECONDS_BETWEEN_TRIES = 0.2

_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
"""Error numbers of `flock` on file systems without locks."""


class StateFolder:
    """The folder with the states and snapshots of one training.

    The `fingerprint` of settings and data identifies the training; `say` is called with lines for
    the user, and `warn` with those that users must not miss (None means `say`).
    """

    def __init__(
        self,
        folder: Path,
        fingerprint: str,
        say: Callable[[str], None],
        warn: Callable[[str], None] | None = None,
    ) -> None:
        self.folder, self.fingerprint, self.say, self.warn = folder, fingerprint, say, warn or say
        with storage_errors(folder, "cannot be made"):
            folder.mkdir(parents=True, exist_ok=True)

    @property
    def snapshots(self) -> Path:
        return self.folder / f"snapshots_{self.fingerprint}"

    @contextlib.contextmanager
    def locked(self, stop: StopSignals) -> Iterator[None]:
        """Lock the folder; wait while another process works on the same training.

        The operating system releases the lock when the process ends for any reason. On a network
        file system without locks, the training continues without a lock, and this is logged. Raises
        `Interrupted` if a stop is requested while waiting.
        """
        with contextlib.ExitStack() as stack:
            path, file = self.folder / "lock", None
            # the process that held the lock may have removed the folder: create it again
            while file is None or not _is_file_at(file, path):
                self.folder.mkdir(parents=True, exist_ok=True)
                file = stack.enter_context(path.open("w"))
                self._wait_for_lock(file, stop)
            yield

    def _wait_for_lock(self, file: IO[str], stop: StopSignals) -> None:
        is_reported = False
        try:
            while not try_lock(file):
                if not is_reported:
                    self.warn(
                        f"{self.folder}: another process is training here; waiting for it to end"
                    )
                    is_reported = True
                stop.raise_if_received("was waiting for another process, nothing to save")
                time.sleep(_SECONDS_BETWEEN_TRIES)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            self.say(
                f"{self.folder}: this file system has no locks ({error.strerror}); continuing"
                " without locks; do not run the same training twice at the same time"
            )

    def save(self, step: int, arrays: Mapping[str, np.ndarray], metadata: dict[str, Any]) -> None:
        """Write the state after `step` steps, then remove older states except the one before.

        States of later steps are also removed, because they are damaged or from before a rollback.
        """
        save_arrays(self._path(step), arrays, metadata | {"run": self.fingerprint, "step": step})
        states = self._states()
        up_to_here = [path for taken, path in states if taken <= step]
        for _, path in states:
            if path in up_to_here[-_KEPT:]:
                continue
            with contextlib.suppress(OSError):  # an additional state does no harm
                path.unlink(missing_ok=True)

    def load_latest(self, usable: Callable[[int], bool]) -> tuple[int, dict, dict] | None:
        """Return step, arrays and metadata of the newest undamaged state; None if there is none.

        `usable` returns whether the state of a step may be used.
        """
        for step, path in reversed(self._states()):
            try:
                arrays, metadata = load_arrays(path)
                if (metadata.get("run"), metadata.get("step")) != (self.fingerprint, step):
                    expected = f"run {self.fingerprint}"
                    raise CheckpointError(str(path), "the state of another run", expected)
            except CheckpointError as error:
                self.say(f"{error}; using the previous state")
                continue
            if usable(step):
                return step, arrays, metadata
        return None

    def whole_snapshots(self, read: SnapshotReader) -> set[int]:
        """Return the steps of undamaged snapshots; log and remove damaged ones."""
        whole = set()
        for step, path in list_snapshots(self.snapshots):
            try:
                read(path, step)
                whole.add(step)
            except CheckpointError as error:
                self.say(f"{error}; it will be saved again")
                with contextlib.suppress(OSError):  # it will be overwritten
                    path.unlink(missing_ok=True)
        return whole

    def forget_other_runs(self) -> None:
        """Remove files of other trainings; log it if they include saved states."""
        ours = {path for _, path in self._states()} | {self.snapshots, self.folder / "lock"}
        others = [path for path in self.folder.iterdir() if path not in ours]
        if any(_STATE_NAME.fullmatch(path.name) for path in others):
            self.say("settings or data have changed since the state was saved; starting at step 0")
        for path in others:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):  # a leftover file only takes disk space
                    path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the folder; a process that waits for the lock creates it again."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, step: int) -> Path:
        return self.folder / f"state_{self.fingerprint}_{step:08d}.safetensors"

    def _states(self) -> list[tuple[int, Path]]:
        matches = [(_STATE_NAME.fullmatch(path.name), path) for path in self.folder.iterdir()]
        return sorted((int(m[2]), path) for m, path in matches if m and m[1] == self.fingerprint)


def _is_file_at(file: IO[str], path: Path) -> bool:
    """Check whether a path still refers to an open file."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
