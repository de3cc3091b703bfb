"""The page of promises names tests and manifest files that exist."""

import re

import pytest
from workspace import ROOT

PAGE = re.sub(r"<!--.*?-->", "", (ROOT / "docs/promises.md").read_text(), flags=re.DOTALL)
ROWS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("|")]
PROMISES = [row for row in ROWS if len(row) == 3 and row[0] != "what happens" and row[0] != "---"]
TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)))


def test_every_promise_is_shown_by_something():
    assert len(PROMISES) >= 10
    for what, _, shown_by in PROMISES:
        assert re.search(r"`(tests/|make )", shown_by), what


@pytest.mark.parametrize(("file", "function"), TESTS)
def test_each_test_is_where_the_page_says(file: str, function: str):
    source = (ROOT / file).read_text()
    assert not function or re.search(rf"^def {function}\(", source, re.MULTILINE)


def test_the_page_says_how_each_entry_of_the_manifest_was_made():
    named = set(re.findall(r"`(\w+\.json)` \|", PAGE))
    assert named == {path.name for path in (ROOT / "verification/manifest").glob("*.json")}


def test_tolerances_are_those_of_the_comparison():
    from comparison import TOLERANCES

    assert f"fit {TOLERANCES['psnr_db']:g} dB, redraw {TOLERANCES['upscale_psnr_db']:g} dB" in PAGE
    assert f"SSIM {TOLERANCES['ssim']:g}, {TOLERANCES['wrong_pixels']} wrong pixels" in PAGE
    assert f"{TOLERANCES['cell_means']:.0%}".replace("%", " %") in PAGE
