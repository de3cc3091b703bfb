"""The manifest of results: a SHA-256 of each file, written whenever Snakemake ends.

Snakemake compares modification times. It does not notice a file whose bytes have changed but whose
time has not, because of a failing disk or a faulty copy; ``make check`` compares the bytes.
"""

import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from operator import ge
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuralfield.system.errors import InputError, NeuralfieldError
from neuralfield.system.files import read_whole, visible_files, write_atomically
from neuralfield.system.provenance import json_digest, sha256_of
from neuralfield.tasks.image.tile_files import read_list

if TYPE_CHECKING:
    from jobs.tile_job import TileJob

NAME = "manifest.json"

_FORMAT = 1
_LARGEST_BYTES = 1 << 30
_TIMESTAMP = ".snakemake_timestamp"
"""The file whose time Snakemake uses as the time of an output that is a folder."""

_PARTS_OF_A_LIST = 3
"""Number of folders above a file list of tiles, in ``{image}/{field}/tiles/``."""

_EXPECTED = "the manifest that a run of the workflow writes"


@dataclass(frozen=True)
class RecordedOutput:
    """One output of a rule as its job wrote it."""

    rule: str
    made_at_s: float  # its modification time, in seconds since 1970
    sha256: str = ""  # empty if the output is a folder
    files: dict[str, str] = field(default_factory=dict)
    """SHA-256 of each file in an output that is a folder, by its path in the folder."""


@dataclass(frozen=True)
class Made:
    """An output of the current workflow, with its path in the folder of results.

    `is_complete` returns whether a successful job wrote the output with the given modification time
    in seconds.
    """

    name: str
    rule: str
    is_complete: Callable[[float], bool]
    sha256: str = ""  # if the job has recorded it, else empty


def keep_manifest(
    workflow: Any, tile_jobs: "Mapping[str, TileJob]", results: Path = Path("results")
) -> None:
    """Update the manifest at the end of Snakemake's main process.

    `tile_jobs` are the jobs on tiles, by the names of their rules: their outputs are lists of other
    files, which are results, too. The function never raises an error of reading or writing files;
    it prints one line instead.
    """
    dag = workflow.dag
    if dag is None or workflow.dryrun or not results.is_dir():
        return

    def is_complete(job: Any, file: Any, made_at_s: float) -> bool:
        record = workflow.persistence.metadata(file)
        if record is None or record.endtime is None:  # --drop-metadata
            return dag.finished(job)
        return record.endtime == made_at_s

    made = [
        Made(
            Path(file).relative_to(results).as_posix(),
            job.rule.name,
            partial(is_complete, job, file),
        )
        for job in dag.jobs
        for file in job.output
        if Path(file).is_relative_to(results)
    ]
    lists = [output for output in made if output.rule in tile_jobs]
    listed = [file for output in lists for file in _listed_files(results, output)]
    seen = {_folder_of_tile(file.name) for file in listed}
    of_tiles = tuple({f"{job.run.image}/{job.run.field}/tiles/" for job in tile_jobs.values()})

    def can_be_made(name: str) -> bool:
        if name.startswith(of_tiles) and name.count("/") > _PARTS_OF_A_LIST:
            return _folder_of_tile(name) not in seen
        return any(rule.is_producer(str(results / name)) for rule in workflow.rules)

    try:
        update_manifest(results, [*made, *listed], can_be_made)
    except (NeuralfieldError, OSError) as error:
        print(f"The manifest of results is not up to date. {error}", file=sys.stderr)


def _folder_of_tile(name: str) -> str:
    """Return the folder ``{image}/{field}/tiles/{tile}`` of a file in it."""
    return "/".join(name.split("/")[: _PARTS_OF_A_LIST + 1])


def _listed_files(results: Path, output: Made) -> Iterator[Made]:
    """Yield the files that are listed in an output that is a file list of tiles."""
    path = results / output.name
    listed_at_s = modified_at_s(path)
    if listed_at_s is None or not output.is_complete(listed_at_s):
        return
    with contextlib.suppress(InputError):  # a damaged list is reported elsewhere
        for tile, files in read_list(path).items():
            for name, sha256 in files.items():
                file = (path.parent / tile / name).relative_to(results).as_posix()
                yield Made(file, output.rule, partial(ge, listed_at_s), sha256)


def update_manifest(
    results: Path, made: Iterable[Made], can_be_made: Callable[[str], bool]
) -> None:
    """Add outputs made since the manifest was written, and drop those that are no longer made.

    An output is hashed only if a job has made it since then. An output that was changed in another
    way keeps the entry that its job caused, so that `check` finds the change. A damaged manifest is
    rewritten before `NeuralfieldError` is raised. `can_be_made` returns whether any rule makes a
    file of the given name.
    """
    before: dict[str, RecordedOutput] = {}
    problems = []
    try:
        before = read_manifest(results)
    except FileNotFoundError:
        pass
    except InputError as error:
        remedy = "no action is needed: it is written again, from all results as they are now"
        problems.append(InputError(error.where, error.found, error.expected, remedy))
    after: dict[str, RecordedOutput] = {}
    for output in made:
        entry = before.get(output.name)
        try:
            entry = _renewed(results / output.name, output, entry)
        except OSError as error:
            found = f"cannot be read ({error.strerror})"
            remedy = "remove it, and run the same command again"
            where, expected = str(results / output.name), f"what the rule {output.rule} made"
            problems.append(InputError(where, found, expected, remedy))
        if entry:
            after[output.name] = entry
    for name in before.keys() - after.keys():
        path = results / name
        if path.exists() or (path.parent.exists() and can_be_made(name)):
            after[name] = before[name]
    if problems or after != before:
        _write(results / NAME, after)
    if problems:
        raise problems[0]


def read_manifest(results: Path) -> dict[str, RecordedOutput]:
    """Read the manifest of a folder of results: its outputs by their paths in that folder."""
    path = results / NAME
    try:
        content = json.loads(read_whole(path, _LARGEST_BYTES))
        outputs = content["outputs"]
        if content["format"] != _FORMAT or content["sha256"] != json_digest(outputs):
            raise ValueError("its format is unknown, or its checksum does not match")
        return {name: RecordedOutput(**entry) for name, entry in outputs.items()}
    except FileNotFoundError:
        raise
    except OSError as error:
        found = f"cannot be read ({error.strerror})"
        remedy = "change its permissions, or remove it, and run the same command again"
        raise InputError(str(path), found, _EXPECTED, remedy) from error
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        found = f"is damaged ({type(error).__name__}: {error})"
        remedy = (
            "remove it, and run the same command again: it is written again, from all results"
            " as they are then"
        )
        raise InputError(str(path), found, _EXPECTED, remedy) from error


def modified_at_s(path: Path) -> float | None:
    """Return the modification time as Snakemake reads it; None if there is no file."""
    for place in (path / _TIMESTAMP, path):
        with contextlib.suppress(OSError):
            return place.stat().st_mtime
    return None


def _renewed(path: Path, output: Made, entry: RecordedOutput | None) -> RecordedOutput | None:
    """Return the entry of an output, or a new one if a job has made the output since."""
    made_at_s = modified_at_s(path)
    is_old = entry is not None and made_at_s == entry.made_at_s
    if made_at_s is None or is_old or not output.is_complete(made_at_s):
        return entry
    if not path.is_dir():
        return RecordedOutput(output.rule, made_at_s, output.sha256 or sha256_of(path))
    files = {file.relative_to(path).as_posix(): sha256_of(file) for file in visible_files(path)}
    return RecordedOutput(output.rule, made_at_s, files=files)


def _write(path: Path, outputs: dict[str, RecordedOutput]) -> None:
    entries = {
        name: {key: value for key, value in asdict(outputs[name]).items() if value}
        for name in sorted(outputs)
    }
    lines = ",\n".join(f"  {json.dumps(n)}: {json.dumps(entry)}" for n, entry in entries.items())
    # this checksum distinguishes damage of the manifest from damage of a result
    head = f'"format": {_FORMAT}, "sha256": "{json_digest(entries)}"'
    write_atomically(path, f'{{{head}, "outputs": {{\n{lines}\n}}}}\n'.encode())
