"""Files for contributors, citations, packaging and catalogues agree with the rest."""

import re
import tomllib

import numba.core.caching
import yaml
from workspace import ROOT

import neuralfield
from neuralfield.engines.cpu.kernels import KernelCache

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def read_yaml(name):
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_the_version_is_the_same_everywhere():
    assert read_yaml("CITATION.cff")["version"] == neuralfield.__version__
    assert PROJECT["dynamic"] == ["version"]


def test_pythons_of_ci_are_those_that_the_package_names():
    named = {
        version
        for line in PROJECT["classifiers"]
        for version in re.findall(r"^Programming Language :: Python :: (3\.\d+)$", line)
    }
    jobs = read_yaml(".github/workflows/ci.yml")["jobs"]
    assert {*jobs["checks"]["strategy"]["matrix"]["python"]} == named
    assert jobs["checks"]["steps"][-1] == {"run": ".ci/run"} and (ROOT / ".ci/run").exists()


def test_numba_has_an_upper_bound_because_its_cache_has_no_documented_interface():
    assert issubclass(KernelCache, numba.core.caching.Cache)
    (declared,) = (line for line in PROJECT["dependencies"] if line.startswith("numba"))
    (bound,) = re.findall(r"<(\d+)\.(\d+)", declared)
    assert tuple(map(int, numba.__version__.split(".")[:2])) < tuple(map(int, bound))
    assert declared.split(";")[0].replace("numba", "numba ") in str(
        read_yaml("workflow/envs/networks.yaml")["dependencies"]
    )


def test_the_site_has_every_page():
    def pages(part):
        if isinstance(part, str):
            return {part}
        parts = part.values() if isinstance(part, dict) else part
        return set().union(*map(pages, parts))

    listed = pages(read_yaml("mkdocs.yml")["nav"])
    docs = ROOT / "docs"
    own = {path.name for path in docs.glob("*.md")}
    own |= {f"tutorials/{path.name}" for path in docs.glob("tutorials/*.py")}
    assert listed == own | {"index.md", "contributing.md", "changelog.md"}


def test_the_catalog_can_read_what_it_needs():
    usage = read_yaml(".snakemake-workflow-catalog.yml")["usage"]
    assert usage["software-stack-deployment"]["conda"] is True
    assert (ROOT / "config/README.md").exists() and (ROOT / "workflow/envs").is_dir()


def test_the_changelog_is_kept_in_its_form():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    dated = r"\[\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}"
    assert headings[0] == "[Unreleased]"
    assert all(re.fullmatch(dated, heading) for heading in headings[1:])
    parts = {*re.findall(r"^### (.+)$", text, re.MULTILINE)}
    assert parts <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
