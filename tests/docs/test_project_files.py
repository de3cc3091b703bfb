"""Files for contributors, citations, packaging and catalogues agree with the rest."""

import re
import tomllib

import numba.core.caching
import yaml
from workspace import ROOT

import neuralfield
from neuralfield.system.compiled_kernels import KernelCache

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def read_yaml(name):
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_the_version_is_the_same_everywhere():
    assert read_yaml("CITATION.cff")["version"] == neuralfield.__version__
    assert PROJECT["dynamic"] == ["version"]
    assert read_yaml("recipe/recipe.yaml")["context"]["version"] == neuralfield.__version__


def test_the_conda_package_needs_what_the_package_needs():
    needed = read_yaml("recipe/recipe.yaml")["requirements"]["run"]
    stated = [re.sub(r"\[.*?\]|;.*", "", line) for line in PROJECT["dependencies"]]
    stated.append(f"python{PROJECT['requires-python']}")
    assert sorted(line.replace(" ", "") for line in needed) == sorted(stated)


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
