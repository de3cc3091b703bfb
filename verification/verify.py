"""Make the shipped results again in a temporary folder, and compare them with the manifest.

    python verification/verify.py                      the same as `make verify`
    python verification/verify.py --device cpu         the same as without a GPU
    python verification/verify.py --results results    compare these results, make none
    python verification/verify.py --write              write this machine's part of the manifest

The exit code is 0 if every result has the bytes of the manifest, or is within tolerance of them,
and 1 otherwise. Your own results/ are not touched.
"""

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from comparison import (  # noqa: E402
    EQUAL,
    FAILURES,
    WITHIN,
    Entry,
    Verdict,
    compare,
    differences_of_kind,
    nearest_entry,
    read_manifest,
    write_entry,
)
from machine_kind import MachineKind, kind_of_results  # noqa: E402
from result_facts import facts_of_results  # noqa: E402

from neuralfield.system.errors import InputError, NeuralfieldError  # noqa: E402
from neuralfield.version import ENGINE_VERSION  # noqa: E402

MANIFEST = Path(__file__).with_name("manifest")


def regenerate(folder: Path, device: str, cores: str) -> None:
    """Run the workflow with the shipped settings in an empty folder."""
    command = [sys.executable, "-P", "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")]
    command += ["--cores", cores, "--config", f"training={{device: {device}}}"]
    code = subprocess.run(command, cwd=folder, check=False).returncode
    if code:
        raise NeuralfieldError(
            "verify",
            f"Snakemake ended with exit code {code}",
            "0",
            "correct the error that it reports",
        )


def judge(results: Path, manifest: Path) -> tuple[Entry, MachineKind, list[Verdict]]:
    """Compare results with the entry of the manifest that is most similar to this machine.

    Raises `InputError` if there are no results or no manifest, or it is of another engine version.
    """
    here = entry_of(results)
    entries = read_manifest(manifest)
    remedy = "create one: python verification/verify.py --write"
    if not entries:
        raise InputError(str(manifest), "no entries", "a file for each kind of machine", remedy)
    nearest = nearest_entry(entries, here.kind)
    if nearest.engine_version != ENGINE_VERSION:
        found = f"{nearest.slug}.json is of engine version {nearest.engine_version}"
        raise InputError(str(manifest), found, f"{ENGINE_VERSION}, as the package", remedy)
    return nearest, here.kind, compare(here.files, nearest.files)


def entry_of(results: Path) -> Entry:
    """Return the manifest's entry for results that were made on this machine."""
    if not (results / "summary.csv").exists():
        raise InputError(str(results), "no summary.csv", "the results of a finished run")
    return Entry(ENGINE_VERSION, kind_of_results(results), facts_of_results(results))


def report(entry: Entry, kind: MachineKind, verdicts: list[Verdict]) -> str:
    """Return the text of the report: a line for each result, and a summary."""
    width = max(len(verdict.name) for verdict in verdicts)
    lines = [f"{v.name:{width}}  {v.status:{len(WITHIN)}}  {v.detail}".rstrip() for v in verdicts]
    counts = Counter(verdict.status for verdict in verdicts)
    differences = differences_of_kind(kind, entry.kind)
    lines += ["", f"{entry.slug}: " + ", ".join(f"{n} {status}" for status, n in counts.items())]
    if differences:
        lines += ["The manifest's machine is of another kind, so bytes may differ:"]
        lines += [f"  {line}" for line in differences]
    elif counts[EQUAL] < len(verdicts):
        lines += ["The manifest's machine is of the same kind: all bytes should be equal."]
    return "\n".join(lines)


def main() -> int:
    """Read the command line, run or compare, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", choices=("auto", "cpu", "gpu"), default="auto")
    parser.add_argument("--cores", default="all", help="cores that Snakemake uses (default: all)")
    parser.add_argument(
        "--results", type=Path, help="compare these results, without running the workflow"
    )
    parser.add_argument("--write", action="store_true", help="write the manifest for this machine")
    parser.add_argument(
        "--manifest", type=Path, default=MANIFEST, help="the folder of the manifest"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="neuralfield_verify_") as folder:
        try:
            results = given.results
            if results is None:
                regenerate(Path(folder), given.device, given.cores)
                results = Path(folder, "results")
            if given.write:
                print(f"written: {write_entry(given.manifest, entry_of(results))}")
                return 0
            entry, kind, verdicts = judge(results, given.manifest)
        except NeuralfieldError as error:
            print(error, file=sys.stderr)
            return 1
    print(report(entry, kind, verdicts))
    return int(any(verdict.status in FAILURES for verdict in verdicts))


if __name__ == "__main__":
    sys.exit(main())
