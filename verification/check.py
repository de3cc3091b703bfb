"""Compare results with the manifest of the last run, and name files that have changed since.

    python verification/check.py                     the same as `make check`
    python verification/check.py --results FOLDER    check results in another folder

Every byte is read, so that damage is found even if a file's size and time are unchanged. Nothing is
modified. The exit code is 0 if all files are as they were made, and 1 otherwise.
"""

import argparse
import contextlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / folder) for folder in ("workflow", "scripts")]

from jobs.manifest import NAME  # noqa: E402
from neuralfield.system.errors import InputError  # noqa: E402
from neuralfield.system.files import visible_files  # noqa: E402
from neuralfield.system.ledger import Entry, differences, read_ledger  # noqa: E402

MADE_BY_NO_RULE = {"README.md", "batches.jsonl", NAME}


def check(results: Path) -> tuple[int, list[InputError]]:
    """Return the number of files in the manifest, and an error for each file that differs from it.

    Raises `InputError` if there is no manifest, or it is damaged.
    """
    path = results / NAME
    if not path.exists():
        remedy = "run the workflow, which writes one even if there is nothing else to do"
        raise InputError(str(path), "there is no such file", "the manifest of a run", remedy)
    entries = {results / name: entry for name, entry in read_ledger(path).items()}
    for made, entry in list(entries.items()):
        if entry.rule.startswith("train_tiles"):
            entries |= _listed_in(made, entry.rule)
    findings = []
    for made, entry in entries.items():
        changed = differences(made, entry) if made.exists() else [(made, "there is no such file")]
        for file, found in changed:
            # Snakemake does not notice that a file in an output folder is missing
            remove = f"remove the folder {made}, and " if file != made else "remove it, and "
            remedy = f"{remove if made.exists() else ''}run the same command again"
            expected = f"the file that the rule {entry.rule} made"
            findings.append(InputError(str(file), found, expected, remedy))
    known = {made / file for made, entry in entries.items() for file in entry.files}
    beside = {results / name for name in MADE_BY_NO_RULE}
    beside |= {file.with_name("budget.json") for file in known if file.name == "training.json"}
    for file in set(visible_files(results)) - known - beside:
        found, expected = "not in the manifest", "only files that rules have made"
        remedy = "run the same command again; if it is still listed, remove it or move it elsewhere"
        findings.append(InputError(str(file), found, expected, remedy))
    return len(known), sorted(findings, key=str)


def _listed_in(path: Path, rule: str) -> dict[Path, Entry]:
    """Return an entry for each file of a list of tiles; a damaged list is reported by itself."""
    with contextlib.suppress(InputError):
        return {
            path.parent / tile / file: Entry({".": sha256}, rule=rule)
            for tile, entry in read_ledger(path).items()
            for file, sha256 in entry.files.items()
        }
    return {}


def main(arguments: list[str] | None = None) -> int:
    """Read the command line, print a line for each finding, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--results", type=Path, default=Path("results"))
    given = parser.parse_args(arguments)
    try:
        count, findings = check(given.results)
    except InputError as error:
        print(error, file=sys.stderr)
        return 1
    for finding in findings:
        print(finding)
    if findings:
        print(f"{len(findings)} of {count} files differ from the manifest.")
        return 1
    print(f"All {count} files agree with the manifest.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
