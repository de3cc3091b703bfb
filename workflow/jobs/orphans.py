"""Jobs that a killed Snakemake left in SLURM's queue, and that would overwrite new files."""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from neuralfield.system.files import try_lock

_LEFT_BY_SNAKEMAKE = re.compile(
    r"(\w+)\|(?:[\w-]+_)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\|rule_"
)
"""Number, name and comment of a job of the executor plugin; the name ends with the run's UUID."""

_LOCKS_OF_ONE_RUN = 2
_COMMAND_PATIENCE_S = 60
_SECONDS_BETWEEN_LOOKS = 1.0


def cancel_orphans(
    owner: IO[str] | None,
    say: Callable[[str], None],
    made: Callable[[], set[Path]],
    folder: Path = Path(".snakemake"),
    *,
    patience_s: float = 180.0,
) -> set[Path]:
    """Cancel jobs of earlier runs in this working directory, and wait until they have ended.

    Trainings save their state when they are cancelled, so that no step is lost. However, the output
    files of a job are removed if the job is cancelled just after completing them. The function
    therefore returns the files that this run relied on (`made`, see `files_made`) and that are now
    missing. Nothing is cancelled unless it is certain that no other Snakemake, to which the jobs
    could belong, is running in this folder: `owner` is the lock that `startup.clear_stale_locks`
    has returned.
    """
    if not (folder / "slurm_logs").exists() or not shutil.which("squeue"):
        return set()
    if not _is_alone(owner, folder):
        return set()
    orphans = _left_in(folder.absolute().parent)
    if not orphans:
        return set()
    counted_on = made()
    say(
        f"An earlier Snakemake was killed and has left {len(orphans)} of its jobs in the queue:"
        " cancelling them; trainings resume from the states that they save now."
    )
    _run("scancel", *orphans)
    deadline_s = time.monotonic() + patience_s
    while remaining := _left_in(folder.absolute().parent) & orphans:
        if time.monotonic() > deadline_s:
            say(f"still in the queue after {patience_s:g} s: jobs {' '.join(sorted(remaining))}")
            break
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    return {file for file in counted_on if not file.exists()}


def files_made(jobs: Any) -> set[Path]:
    """Return the existing output files of the jobs of a DAG that do not have to run."""
    outputs = (file for job in jobs.jobs if not jobs.needrun(job) for file in job.output)
    return {path for path in map(Path, outputs) if path.exists()}


def begin_again(workflow: Any) -> None:
    """Restart this process's command, because files were removed after it planned its jobs."""
    workflow.persistence.unlock()
    workflow.logger_manager.stop()
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _is_alone(owner: IO[str] | None, folder: Path) -> bool:
    """Return whether no other Snakemake runs in this folder, on this machine or on another."""
    if owner is None or len(list((folder / "locks").glob("*.lock"))) > _LOCKS_OF_ONE_RUN:
        return False
    try:
        return try_lock(owner)
    except OSError:
        return False
    finally:  # a failed attempt to lock it exclusively may release the shared lock
        fcntl.flock(owner, fcntl.LOCK_SH)


def _left_in(folder: Path) -> set[str]:
    """Return the numbers of the user's jobs that a Snakemake has submitted from a folder."""
    found = set()
    for line in _run("squeue", "--me", "--noheader", "--format", "%F|%j|%k|%Z").splitlines():
        job = _LEFT_BY_SNAKEMAKE.match(line)
        if job and line.endswith(f"|{folder}"):
            found.add(job[1])
    return found


def _run(*command: str) -> str:
    """Return the output of a command; empty if it fails, as the cluster may be unavailable."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_COMMAND_PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout
