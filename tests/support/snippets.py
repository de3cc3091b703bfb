"""The code snippets of the documentation pages, and the commands named inside their sentences."""

import itertools
import re
import shlex
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from paths import ROOT

PAGES = (
    *("README.md", "CONTRIBUTING.md", "benchmarks/README.md", "config/README.md"),
    *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")),
)
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Snippet(NamedTuple):
    """A fenced block or a command in backticks; `language` is ``text`` if the page names none."""

    page: str
    line: int
    language: str
    text: str


def snippets(page: str, *languages: str) -> list[Snippet]:
    """Return the fenced blocks of a page, of all languages or only of the given ones."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = [
        Snippet(page, _line(text, block), block[1] or "text", block[2])
        for block in _FENCED.finditer(text)
    ]
    assert len(found) == text.count("```") / 2, f"{page}: a fence is not closed, or not at a margin"
    return [snippet for snippet in found if not languages or snippet.language in languages]


def named_commands(page: str, programs: Iterable[str]) -> list[Snippet]:
    """Return the texts in backticks on a page that are one of some programs with arguments."""
    text = (ROOT / page).read_text(encoding="utf-8")
    text = _FENCED.sub(lambda block: "\n" * block[0].count("\n"), text)
    start = re.compile(rf"(?:[A-Z_]+=\S+ )*(?:{'|'.join(programs)})\s")
    return [
        Snippet(page, _line(text, span), "sh", " ".join(span[1].split()))
        for span in re.finditer(r"`([^`]+)`", text)
        if start.match(span[1])
    ]


def _line(text: str, found: re.Match) -> int:
    return text.count("\n", 0, found.start()) + 1


def simple_commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each command in shell code, without comments and redirections."""
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(re.sub(r" \d?>+ ?\S+", "", line), posix=True, punctuation_chars="();|&")
        lexer.whitespace_split = True
        for is_mark, words in itertools.groupby(lexer, lambda word: set(word) <= set("();|&")):
            if not is_mark:
                yield [*words]
