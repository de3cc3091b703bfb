"""Comparison of results with the manifest: bytes equal, within tolerance, or different."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from machine_kind import MachineKind
from result_facts import Facts

EQUAL, WITHIN, DIFFERENT = "bytes equal", "within tolerance", "different"
MISSING, UNEXPECTED = "missing", "not in the manifest"
FAILURES = (DIFFERENT, MISSING, UNEXPECTED)

TOLERANCES = {
    "psnr_db": 0.5,
    "last_psnr_db": 1.0,  # an estimate from a few batches
    "ssim": 0.01,
    "wrong_pixels": 50,
    "upscale_psnr_db": 0.3,
    "upscale_lanczos_psnr_db": 0.01,
    "upscale_bicubic_psnr_db": 0.01,
    "weights_rms": 0.005,
    "cell_means": 0.03,
    "spread": 0.03,
}
"""Maximum differences of numbers from those of the manifest; other numbers have to be equal.

Trainings on two kinds of machine differ from the last digit of the first product on, so that only
their quality is the same. The tolerances are two to ten times the differences between BLAS kernels.
"""


@dataclass(frozen=True)
class Verdict:
    """The status of one result, one of the five constants above.

    If bytes differ, `detail` describes the number with the largest difference relative to its
    tolerance.
    """

    name: str
    status: str
    detail: str = ""


@dataclass(frozen=True)
class Entry:
    """The results of a run on one kind of machine."""

    engine_version: int
    kind: MachineKind
    files: Mapping[str, Facts]

    @property
    def slug(self) -> str:
        """The name of the entry's file, without the extension."""
        kernels = self.kind["blas"].split()[-1] if self.kind["device"] == "cpu" else ""
        words = f"{self.kind['device']} {self.kind['engine']} {kernels}".split()
        return "_".join("".join(c for c in word if c.isalnum()) for word in words).lower()


def read_manifest(folder: Path) -> list[Entry]:
    """Read all entries of a manifest: a file for each kind of machine."""
    return [Entry(**json.loads(path.read_text())) for path in sorted(folder.glob("*.json"))]


def write_entry(folder: Path, entry: Entry) -> Path:
    """Write an entry with a line for each result, replacing an entry of the same name."""
    files = ",\n".join(f"  {json.dumps(n)}: {json.dumps(f)}" for n, f in entry.files.items())
    kind = json.dumps(entry.kind, indent=1).replace("\n", "\n ")
    path = folder / f"{entry.slug}.json"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'{{\n "engine_version": {entry.engine_version},\n "kind": {kind},\n'
        f' "files": {{\n{files}\n }}\n}}\n'
    )
    return path


def nearest_entry(entries: list[Entry], kind: MachineKind) -> Entry:
    """Return the entry whose kind of machine is most similar: first by device, then by engine."""

    def likeness(entry: Entry) -> tuple[bool, bool, int]:
        same = {key for key in kind if entry.kind.get(key) == kind[key]}
        return "device" in same, "engine" in same, len(same)

    return max(entries, key=likeness)


def differences_of_kind(here: MachineKind, there: MachineKind) -> list[str]:
    """Describe the differences between two kinds of machine, one per line."""
    return [
        f"{key}: {here.get(key, 'none')} here, {there.get(key, 'none')} in the manifest"
        for key in {**there, **here}
        if here.get(key) != there.get(key)
    ]


def compare(found: Mapping[str, Facts], expected: Mapping[str, Facts]) -> list[Verdict]:
    """Return a verdict on each found or expected result, sorted by name."""
    names = sorted(found.keys() | expected.keys())
    return [_verdict(name, found.get(name), expected.get(name)) for name in names]


def _verdict(name: str, found: Facts | None, expected: Facts | None) -> Verdict:
    if found is None or expected is None:
        return Verdict(name, MISSING if found is None else UNEXPECTED)
    if found["sha256"] == expected["sha256"]:
        return Verdict(name, EQUAL)
    here, there = found["numbers"], expected["numbers"]
    if not there:
        return Verdict(name, DIFFERENT, "must have the same bytes")
    excesses = {
        key: _excess(here.get(key), there.get(key), TOLERANCES.get(key, 0))
        for key in {**there, **here}
    }
    worst = max(excesses, key=excesses.__getitem__)
    if not excesses[worst]:
        return Verdict(name, WITHIN, "the numbers are the same")
    times = f"{excesses[worst]:.2g} times the tolerance"
    both = (
        "" if isinstance(there.get(worst), list) else f", {here.get(worst)}, not {there.get(worst)}"
    )
    return Verdict(name, DIFFERENT if excesses[worst] > 1 else WITHIN, f"{worst}: {times}{both}")


def _excess(here: Any, there: Any, tolerance: float) -> float:
    """Return the largest difference divided by the tolerance; infinite without a tolerance."""
    if here == there:
        return 0.0
    if isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
        return max(_excess(a, b, tolerance) for a, b in zip(here, there, strict=True))
    if not (tolerance and isinstance(here, int | float) and isinstance(there, int | float)):
        return math.inf
    distance = abs(here - there) / tolerance
    return distance if math.isfinite(distance) else math.inf
