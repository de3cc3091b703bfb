"""Docstrings are sentences: none opens with a fragment like "What ..." or "Of ..."."""

import re

from paths import ROOT

FOLDERS = (".ci", "benchmarks", "scripts", "tests", "verification", "workflow")


def test_no_docstring_opens_with_a_fragment():
    opening = re.compile(r'^ *"""(?:What|Of)\b', re.MULTILINE)
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    assert len(paths) > 300
    assert [
        path.relative_to(ROOT).as_posix()
        for path in paths
        if opening.search(path.read_text(encoding="utf-8"))
    ] == []
