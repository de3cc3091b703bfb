"""Docstrings are sentences: none opens with a fragment like "What ..." or "Of ..."."""

import re

from paths import ROOT

FOLDERS = (".ci", "benchmarks", "scripts", "tests", "verification", "workflow")
KNOWN = {
    "scripts/neuralfield/engines/cuda/hopper/wide_pass.py": 1,
    "scripts/neuralfield/rendering/residual.py": 1,
}
"""How many fragments there still are in a file: this table only shrinks."""


def test_no_docstring_opens_with_a_fragment():
    opening = re.compile(r'^ *"""(?:What|Of)\b', re.MULTILINE)
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    assert len(paths) > 300
    found = {
        path.relative_to(ROOT).as_posix(): len(opening.findall(path.read_text(encoding="utf-8")))
        for path in paths
    }
    assert {name: count for name, count in found.items() if count > KNOWN.get(name, 0)} == {}
