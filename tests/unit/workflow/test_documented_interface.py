"""The workflow uses Snakemake as its documentation describes, and reaches into nothing of it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "scripts/neuralfield"

INSIDE = {
    "an object of Snakemake's own": r"\.persistence\b|\.scheduler\b|\bforcefiles\b",
    "a module that is replaced": r"\bsys\.modules\b",
    "an attribute of the workflow that is not documented": (
        r"(?<![/\w])workflow\.(?!cores\b|basedir\b|source_path\b)[a-z_]+\b(?!/)"
    ),
    "a name of its own": r"\bfrom snakemake\w*(?:\.\w+)* import .*\b_\w|\bsnakemake(?:\.\w+)*\._\w",
    "a change of Snakemake": r"(?m)^\s*(?:snakemake(?:_\w+)?|workflow|logger)(?:\.\w+)+ *=[^=]",
    "another module than for workflows": (
        r"\b(?:from|import) snakemake\.(?!utils\b|exceptions\b|iocontainers\b)"
    ),
}


def sources() -> list[Path]:
    """Return the workflow, its scripts and the logger plugin, without the package."""
    found = [ROOT / "Snakefile"]
    for folder in (ROOT / "workflow", ROOT / "scripts"):
        found += [
            p for p in folder.rglob("*") if p.suffix in (".py", ".smk") or p.name == "Snakefile"
        ]
    return [path for path in found if not path.is_relative_to(PACKAGE)]


@pytest.mark.parametrize("what", INSIDE)
def test_nothing_reaches_inside_of_snakemake(what):
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in sources()
        for match in re.finditer(INSIDE[what], path.read_text(encoding="utf-8"))
    ]
    assert not found


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("an object of Snakemake's own", "job.dag.workflow.persistence.unlock()"),
        ("a module that is replaced", "sys.modules['pandas'] = None"),
        ("an attribute of the workflow that is not documented", "if workflow.is_main_process:"),
        ("a name of its own", "from snakemake.common import is_local, _x"),
        ("a change of Snakemake", "    workflow.scheduler.job_rate_limiter = None"),
        ("another module than for workflows", "from snakemake.script import PythonScript"),
    ],
)
def test_what_the_test_looks_for_is_found(what, text):
    assert re.search(INSIDE[what], text)


def test_the_package_does_not_know_snakemake():
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"(?m)^\s*(?:from|import) snakemake", text), path
