"""Hooks of MkDocs: pages of the repository's top, and links to files that are not on the site."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
TOP = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""Pages beside docs/, and their names on the site."""

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of the top."""
    for name, page in TOP.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        text = _with_links(text, ROOT).replace('src="docs/', 'src="')
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **others: Any) -> str:
    """Let links of a page of docs/ lead to pages of the site, or be text."""
    if page.file.src_uri in TOP.values():
        return markdown
    return _with_links(markdown, ROOT / "docs")


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
