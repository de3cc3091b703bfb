"""Compare results with the manifest of the last run, and name files that have changed since.

    python verification/check.py                     the same as `make check`
    python verification/check.py --results FOLDER    check results in another folder

Every byte is read, so that damage is found even if a file's size and time are unchanged. Nothing is
modified. The exit code is 0 if all files are as they were made, and 1 otherwise.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / folder) for folder in ("workflow", "scripts")]

from jobs.results_manifest import NAME, RecordedOutput, read_manifest  # noqa: E402
from neuralfield.system.errors import InputError  # noqa: E402
from neuralfield.system.files import visible_files  # noqa: E402
from neuralfield.system.provenance import sha256_of  # noqa: E402

MADE_BY_NO_RULE = {"README.md", "batches.jsonl", NAME}


def check(results: Path) -> tuple[int, list[InputError]]:
    """Compare every file with the manifest.

    Returns
    -------
    count : int
        The number of files in the manifest.
    findings : list of InputError
        One for each file that is missing, has other bytes, or is not in the manifest.

    Raises
    ------
    InputError
        If there is no manifest, or it is damaged.
    """
    try:
        outputs = read_manifest(results)
    except FileNotFoundError as error:
        remedy = "run the workflow, which writes one even if there is nothing else to do"
        where, expected = str(results / NAME), "the manifest of an earlier run"
        raise InputError(where, "there is no such file", expected, remedy) from error
    known = set()
    findings = []
    for name, output in outputs.items():
        files = {name: output.sha256} if output.sha256 else output.files
        folder = results if output.sha256 else results / name
        known |= {folder / file for file in files}
        if output.sha256 or (results / name).is_dir():
            for file, sha256 in files.items():
                findings += _differences(folder / file, sha256, results / name, output)
        else:
            findings += [_missing(results / name, results / name, output)]
    beside = {results / name for name in MADE_BY_NO_RULE}
    beside |= {file.with_name("budget.json") for file in known if file.name == "training.json"}
    findings += [
        _foreign(file, results, outputs)
        for file in visible_files(results)
        if file not in known | beside
    ]
    return len(known), sorted(findings, key=str)


def _differences(
    file: Path, sha256: str, made: Path, output: RecordedOutput
) -> Iterator[InputError]:
    """Yield an error if a file differs from the manifest."""
    try:
        if sha256_of(file) == sha256:
            return
        time_s = file.stat().st_mtime
        # files in a folder are older than the folder's own time
        is_new = time_s > output.made_at_s or (file == made and time_s != output.made_at_s)
        found = f"has changed, {'with a new' if is_new else 'but has the same'} modification time"
    except FileNotFoundError:
        yield _missing(file, made, output)
        return
    except OSError as error:
        found = f"cannot be read ({error.strerror})"
    expected = f"the file that the rule {output.rule} made (SHA-256 {sha256[:12]}...)"
    yield InputError(str(file), found, expected, _remedy(file, made))


def _missing(file: Path, made: Path, output: RecordedOutput) -> InputError:
    expected = f"the file that the rule {output.rule} made"
    remedy = "run the same command again" if file == made else _remedy(file, made)
    return InputError(str(file), "there is no such file", expected, remedy)


def _foreign(file: Path, results: Path, outputs: dict[str, RecordedOutput]) -> InputError:
    """Describe a file that is not in the manifest."""
    for parent in file.relative_to(results).parents:
        if output := outputs.get(parent.as_posix()):
            expected = f"only files that the rule {output.rule} made in {results / parent}"
            return InputError(str(file), "a file that no rule made", expected, "remove it")
    remedy = (
        "run the same command again; if the file is still listed, remove it or move it elsewhere"
    )
    return InputError(str(file), "not in the manifest", "only files that rules have made", remedy)


def _remedy(file: Path, made: Path) -> str:
    """Return the remedy: an output folder has to be removed as a whole to be made again."""
    what = "it" if file == made else f"the folder {made}"
    return f"remove {what}, and run the same command again"


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
