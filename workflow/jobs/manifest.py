"""The manifest: the ledger of all results, which is written whenever Snakemake ends.

Snakemake compares modification times. It does not notice a file whose bytes have changed but whose
time has not, because of a failing disk or a faulty copy; ``make check`` compares the bytes.
"""

import contextlib
import sys
from pathlib import Path
from typing import Any

from neuralfield.system.errors import InputError, NeuralfieldError
from neuralfield.system.ledger import Entry, digests_of, read_ledger, write_ledger

NAME = "manifest.json"

_TIMESTAMP = ".snakemake_timestamp"
"""The file whose time Snakemake uses as the time of an output that is a folder."""


def write_manifest(workflow: Any, results: Path = Path("results")) -> None:
    """Add outputs made since the manifest was written, and drop those that are no longer made.

    An output is hashed only if a job has made it since then. An output that was changed in another
    way keeps the entry that its job caused, so that ``make check`` reports the change. Errors are
    printed and not raised, because this is called at the end of Snakemake's main process.
    """
    if workflow.dag is None or workflow.dryrun or not results.is_dir():
        return
    try:
        _update(workflow, results)
    except (NeuralfieldError, OSError) as error:
        print(f"The manifest of results is not up to date. {error}", file=sys.stderr)


def _update(workflow: Any, results: Path) -> None:
    path = results / NAME
    before: dict[str, Entry] = {}
    if path.exists():
        try:
            before = read_ledger(path)
        except InputError as error:
            again = "it is written again, from all results as they are now"
            print(f"{path}: {error.found}; {again}", file=sys.stderr)
    after: dict[str, Entry] = {}
    for job in workflow.dag.jobs:
        for file in job.output:
            if Path(file).is_relative_to(results):
                name = Path(file).relative_to(results).as_posix()
                if entry := _entry(workflow, job, file, before.get(name)):
                    after[name] = entry
    for name in before.keys() - after.keys():
        file = str(results / name)
        is_left = Path(file).parent.exists()
        if Path(file).exists() or (is_left and any(r.is_producer(file) for r in workflow.rules)):
            after[name] = before[name]
    if after != before:
        write_ledger(path, {name: after[name] for name in sorted(after)})


def _entry(workflow: Any, job: Any, file: Any, before: Entry | None) -> Entry | None:
    """Return the entry of an output, or a new one if a successful job has made it since."""
    made_at_s = _modified_at_s(Path(file))
    if made_at_s is None or (before and made_at_s == before.made_at_s):
        return before
    record = workflow.persistence.metadata(file)
    if record is None or record.endtime is None:  # --drop-metadata, or of the last job
        is_complete = workflow.dag.finished(job)
    else:
        is_complete = record.endtime == made_at_s
    if not is_complete:
        return before
    return Entry(digests_of(Path(file)), rule=job.rule.name, made_at_s=made_at_s)


def _modified_at_s(path: Path) -> float | None:
    """Return the modification time as Snakemake reads it; None if there is no file."""
    for file in (path / _TIMESTAMP, path):
        with contextlib.suppress(OSError):
            return file.stat().st_mtime
    return None
