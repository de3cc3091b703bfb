"""Hooks of MkDocs: pages from the repository's root, links to files that are not on the site,
formulas as MathML, and the gallery, whose images the workflow makes."""

import csv
import html
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
TOP = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""Pages in the repository's root, and their names on the site."""

GALLERY = "gallery.md"
GALLERY_FOLDER = ROOT / "build/gallery"
"""The folder with the gallery's results, which is kept so that they are not made again."""

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")
_SHOWN = re.compile(r'src="(gallery/([^"]+))"')
_NUMBER = re.compile(r"\{(\w+)/(\w+)/(redraw|filter)\}")
_FORMULA = re.compile(r'<span class="arithmatex">\\\((.+?)\\\)</span>', re.DOTALL)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages from the repository's root, and the images of the gallery."""
    for name, page in TOP.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        text = _with_links(text, ROOT).replace('src="docs/', 'src="')
        files.append(File.generated(config, page, content=text))
    results = run_workflow(ROOT / "docs/gallery.yaml", GALLERY_FOLDER)
    page = (ROOT / "docs" / GALLERY).read_text(encoding="utf-8")
    for target, name in _SHOWN.findall(page):
        files.append(File.generated(config, target, content=(results / name).read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Any, **others: Any) -> str:
    """Convert links of a page of docs/ to links to pages of the site, or to plain text."""
    if page.file.src_uri in TOP.values():
        return markdown
    if page.file.src_uri == GALLERY:
        return _with_numbers(markdown, GALLERY_FOLDER / "results/summary.csv")
    return _with_links(markdown, ROOT / Path("docs", page.file.src_uri).parent)


def on_page_content(content: str, **others: Any) -> str:
    """Convert formulas to MathML, which browsers show without an external script."""
    return _FORMULA.sub(lambda found: convert(html.unescape(found[1])), content)


def run_workflow(config: Path, folder: Path) -> Path:
    """Make everything that a config names in a folder, and return its results."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "snakemake", "--snakefile", ROOT / "Snakefile"]
    command += ["--directory", folder, "--configfile", config, "--cores", "all"]
    done = subprocess.run(list(map(os.fspath, command)), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"the workflow failed for the gallery:\n{done.stderr}")
    return folder / "results"


def _with_numbers(text: str, summary: Path) -> str:
    """Insert the dB of enlarged images from the summary."""
    with summary.open(encoding="utf-8", newline="") as file:
        rows = {(row["image"], row["field"]): row for row in csv.DictReader(file)}

    def number(found: re.Match[str]) -> str:
        row = rows[found[1], found[2]]
        best = f"upscale_{row['upscale_best_filter']}_psnr_db"
        return f"{float(row['upscale_psnr_db' if found[3] == 'redraw' else best]):.1f}"

    return _NUMBER.sub(number, text)


def _with_links(text: str, folder: Path) -> str:
    def replaced(link: re.Match[str]) -> str:
        is_image, label, target, part = link.groups()
        path = (folder / target).resolve().relative_to(ROOT).as_posix()
        if path in TOP:
            path = f"docs/{TOP[path]}"
        if path.startswith("docs/"):
            return f"{is_image}[{label}]({path.removeprefix('docs/')}{part or ''})"
        return label  # a file of the repository, which has no page

    return _LINK.sub(replaced, text)
