"""Compare results with the checksums that their jobs wrote, and name files that have changed since.

    python verification/check.py                     the same as `make check`
    python verification/check.py --results FOLDER    check results in another folder

Each job writes the SHA-256 of its outputs beside its log, for example to
``logs/lion_cub/siren/train.sha256``, in the format of sha256sum. Every byte of the results is read,
so that damage is found even if a file's size and time are unchanged. Nothing is modified. The last
line is the command that makes the files again. The exit code is 0 if all files are as they were
made, and 1 otherwise.
"""

import argparse
import contextlib
import re
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from neuralfield.system.errors import InputError  # noqa: E402
from neuralfield.system.files import visible_files  # noqa: E402
from neuralfield.system.ledger import Entry, differences, read_ledger  # noqa: E402

MADE_BY_NO_RULE = {"README.md", "batches.jsonl"}

_LINE = re.compile(r"([0-9a-f]{64})  ((?:.*?/)?results/)(.+)")
_FOLDER_OUTPUT = re.compile(r"(.*/(?:checkpoints|comparison|pyramid(?:_\d+)?))/.*")
"""The outputs that are folders; a file in such a folder is made again with the folder."""


@dataclass
class Output:
    """An output of a job, as Snakemake names it, the list that has it, and its files' SHA-256."""

    name: str
    listed_in: Path
    files: dict[str, str] = field(default_factory=dict)


@dataclass
class Checked:
    """The number of files with checksums, and what is wrong with files, and how to repair it."""

    count: int = 0
    findings: list[InputError] = field(default_factory=list)
    to_make: list[str] = field(default_factory=list)
    """One output for each job that has to run again, as Snakemake names it."""


def check(results: Path) -> Checked:
    """Compare all files in a folder of results; raise `InputError` if there are no checksums."""
    logs = results.parent / "logs"
    # the newest list of an output counts: another job may have made it before
    lists = sorted(logs.rglob("*.sha256"), key=lambda path: (path.stat().st_mtime_ns, path))
    if not lists:
        remedy = "run the workflow, whose jobs write them"
        raise InputError(str(logs), "there are no checksums (*.sha256)", "those of a run", remedy)
    outputs = {output: made for path in lists for output, made in _read(path).items()}
    for output, made in outputs.items():
        if Path(output).parent.name == "tiles":
            made.files |= _of_tiles(results, made)
    known = {results / name for made in outputs.values() for name in made.files}
    checked = Checked(len(known))
    jobs: dict[Path, str] = {}
    for made in outputs.values():
        for name, digest in made.files.items():
            for file, found in differences(results / name, Entry({".": digest})):
                expected = f"the file whose SHA-256 is in {made.listed_in}"
                checked.findings.append(InputError(str(file), found, expected))
                jobs.setdefault(made.listed_in, made.name)
    checked.to_make = sorted(jobs.values())
    beside = {results / name for name in MADE_BY_NO_RULE}
    beside |= {file.with_name("budget.json") for file in known}
    for file in set(visible_files(results)) - known - beside:
        found, expected = "no job has listed it", "only files that jobs have made"
        remedy = "remove it, or move it elsewhere; it may be of earlier settings"
        checked.findings.append(InputError(str(file), found, expected, remedy))
    checked.findings.sort(key=str)
    return checked


def _read(path: Path) -> dict[str, Output]:
    """Return the outputs in a list, by their paths in the folder of results."""
    outputs: dict[str, Output] = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if match := _LINE.fullmatch(line):
            digest, folder, name = match.groups()
            in_folder = _FOLDER_OUTPUT.fullmatch(name)
            output = in_folder[1] if in_folder else name
            outputs.setdefault(output, Output(folder + output, path)).files[name] = digest
    return outputs


def _of_tiles(results: Path, made: Output) -> dict[str, str]:
    """Return the files of a list of tiles; a damaged list is reported by itself."""
    (name,) = made.files
    with contextlib.suppress(InputError):
        return {
            f"{Path(name).parent}/{tile}/{file}": digest
            for tile, entry in read_ledger(results / name).items()
            for file, digest in entry.files.items()
        }
    return {}


def main(arguments: list[str] | None = None) -> int:
    """Read the command line, print a line for each finding, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--results", type=Path, default=Path("results"))
    given = parser.parse_args(arguments)
    try:
        checked = check(given.results)
    except InputError as error:
        print(error, file=sys.stderr)
        return 1
    for finding in checked.findings:
        print(finding)
    if not checked.findings:
        print(f"All {checked.count} files are as they were made.")
        return 0
    print(f"{len(checked.findings)} files differ from the checksums of {checked.count} files.")
    if outputs := checked.to_make:
        print(
            "This command makes them again, with the options of the run that made them, in the same"
            " folder; if they are not wanted any more, remove the lists that name them instead:"
        )
        print(f"snakemake --cores all --forcerun {shlex.join(outputs)} -- {shlex.join(outputs)}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
