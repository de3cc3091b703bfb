"""Pages other than the README: the files that they link to and name exist."""

import re

import pytest
from workspace import ROOT

NAMES = (
    *("CONTRIBUTING.md", "SECURITY.md", "benchmarks/README.md", "config/README.md"),
    *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")),
)
PAGES = [ROOT / name for name in NAMES]
PAGE_TEXTS = "".join(page.read_text() for page in PAGES)
PACKAGE = ROOT / "scripts" / "neuralfield"
CUDA_FILES = {path.name: path for path in PACKAGE.rglob("*.cu*")}
GPU_PAGES = "".join((ROOT / f"docs/{name}.md").read_text() for name in ("gpu", "kernels"))


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


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(\w+\.cuh?)`", GPU_PAGES))))
def test_kernel_files_are_where_the_page_says(name):
    assert name in CUDA_FILES


@pytest.mark.parametrize(
    "name", sorted(set(re.findall(r"`((?:tests|workflow)/[\w/]+\.\w+)`", GPU_PAGES)))
)
def test_other_files_are_where_the_page_says(name):
    assert (ROOT / name).exists()


@pytest.mark.parametrize(
    "name",
    sorted(
        set(
            re.findall(
                r"`((?:system|nn|images|fields|tasks|engines|training|rendering|api|command)/[\w/.]*)`",
                PAGE_TEXTS,
            )
        )
    ),
)
def test_parts_of_the_package_are_where_the_pages_say(name):
    assert (PACKAGE / name).exists()


def test_files_that_sources_name_are_there():
    sources = [*PACKAGE.rglob("*.py"), *CUDA_FILES.values()]
    folders = "|".join(path.name for path in PACKAGE.iterdir() if path.is_dir())
    named = rf"(?<![\w/])(?:{folders})/[\w/]+\.(?:py|cuh?)\b"
    found = {(path.name, name) for path in sources for name in re.findall(named, path.read_text())}
    assert found
    assert [(path, name) for path, name in found if not (PACKAGE / name).exists()] == []


@pytest.mark.parametrize("kernel", ["wide_pass", "weight_gradients", "narrow_pass", "update"])
def test_kernels_have_the_names_that_the_page_gives_them(kernel):
    assert kernel in GPU_PAGES
    sources = "".join(path.read_text() for path in CUDA_FILES.values())
    assert re.search(rf"__global__[^;{{]*\b{kernel}\(", sources)


def test_the_rows_of_protocols_are_those_of_the_report():
    page = (ROOT / "docs/fields.md").read_text()
    section = page.split("## Beside the numbers of others")[1].split("\n## ")[0]
    (report,) = re.findall(r"\]\(\.\./(benchmarks/results/[\w-]+_protocols\.md)\)", section)
    _, _, *rows = [line for line in section.splitlines() if line.startswith("|")]
    assert len(rows) > 10
    assert not set(rows) - set((ROOT / report).read_text().splitlines())
