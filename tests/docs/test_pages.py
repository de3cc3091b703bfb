"""The files that pages link to and name exist."""

import re

import pytest
import snippets
from workspace import ROOT

PAGES = [ROOT / name for name in (*snippets.PAGES, "SECURITY.md")]
PACKAGE = ROOT / "scripts" / "neuralfield"
LAYERS = "|".join(path.name for path in PACKAGE.iterdir() if path.is_dir())
CUDA_FILES = {path.name: path for path in PACKAGE.rglob("*.cu*")}


def anchor(heading: str) -> str:
    """Return the fragment of a link to a heading."""
    return "#" + re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!http)([^)]+)\)", page.read_text()):
        name, _, part = target.partition("#")
        found = (page.parent / name) if name else page
        assert found.exists(), target
        if part:
            headings = re.findall(r"^#+ (.+)$", found.read_text(), re.MULTILINE)
            assert f"#{part}" in map(anchor, headings), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_files_exist(page):
    text = page.read_text()
    assert set(re.findall(r"`(\w+\.cuh?)`", text)) <= set(CUDA_FILES)
    for name in re.findall(r"`((?:tests|workflow|scripts)/[\w/]+\.\w+)`", text):
        assert (ROOT / name).exists(), name
    for name in re.findall(rf"`((?:{LAYERS})/[\w/.]*)`", text):
        assert (PACKAGE / name).exists(), name


def test_files_that_sources_name_are_there():
    sources = [*PACKAGE.rglob("*.py"), *CUDA_FILES.values()]
    named = rf"(?<![\w/])(?:{LAYERS})/[\w/]+\.(?:py|cuh?)\b"
    found = {(path.name, name) for path in sources for name in re.findall(named, path.read_text())}
    assert found
    assert [(path, name) for path, name in found if not (PACKAGE / name).exists()] == []


@pytest.mark.parametrize("kernel", ["wide_pass", "weight_gradients", "narrow_pass", "update"])
def test_kernels_have_the_names_that_the_page_gives_them(kernel):
    assert kernel in (ROOT / "docs/kernels.md").read_text()
    sources = "".join(path.read_text() for path in CUDA_FILES.values())
    assert re.search(rf"__global__[^;{{]*\b{kernel}\(", sources)
