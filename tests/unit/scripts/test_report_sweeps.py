"""The report on sweeps is honest about chance, and readable with two networks or forty."""

import re

import numpy as np
import pytest
from test_compare import HEADER
from test_report import TEMPLATE, ParsedPage, inputs

import compare
import report
from neuralfield.images import ImageData, write_image
from reporting.plots import inline_svg
from reporting.sweep_page import gather_sweeps
from reporting.sweep_plots import Point, frontier, scatter

FILTER = "upscale_back_projection_psnr_db,upscale_best_filter"
HEADER_WITH_FILTER = HEADER.replace(",train", f",{FILTER},train")


@pytest.fixture
def sweep(tmp_path):
    """Return a function that makes tables and images of runs (image, width, seed, redraw in dB)."""

    def make(*runs, base="net"):
        rows = [HEADER_WITH_FILTER]
        for image, width, seed, redraw_db in runs:
            name = f"{base}+width={width}"
            numbers = f"30,0.5,{redraw_db},21.5,back_projection,{width},{100 * width},{seed}"
            rows.append(f"{image},{name}+random_seed={seed},{numbers},s,{base},{name},{width}")
            folder = tmp_path / "results" / image / f"{name}+random_seed={seed}" / "comparison"
            folder.mkdir(parents=True)
            for number, kind in enumerate(("source", "redraw", "back_projection")):
                values = np.full((4, 4, 1), (number + width % 7) / 10)
                write_image(folder / f"{kind}.png", ImageData.from_values(values, "grey", 8))
        tables = [tmp_path / f"{name}.csv" for name in ("summary", "overall", "by_image")]
        tables[0].write_text("\n".join(rows) + "\n")
        compare.main(*tables, sweeps=["s"])
        return tables

    return make


def gathered(made):
    (section,) = gather_sweeps(made, made[0].parent / "results")
    return section


def page_of(made, tmp_path):
    results = tmp_path / "results"
    path = results / "report.html"
    own = inputs(results)
    report.main(**own, sweep_tables=made, template=TEMPLATE, report=path, settings={})
    text = path.read_text()
    return re.sub(r"\s+", " ", text), ParsedPage(text)


def test_a_lead_is_put_beside_what_a_seed_changes(sweep, tmp_path):
    made = sweep(("a", 4, 0, 20), ("a", 4, 1, 22), ("a", 8, 0, 21), ("a", 8, 1, 22))
    section = gathered(made)
    assert section.lead_db == pytest.approx(0.5)
    # variances 2 and 0.5, one degree of freedom each
    assert section.seed_sd_db == pytest.approx(1.25**0.5)
    assert (section.wins, section.complete) == (1, True)
    text, page = page_of(made, tmp_path)
    assert "It is 0.50 dB above the second" in text
    assert "changes a result by 1.12 dB (standard deviation), which is at least as much." in text
    assert "± 0.71" in page.text


def test_a_shared_rank_and_missing_runs_are_reported(sweep, tmp_path):
    made = sweep(
        ("a", 4, 0, 20), ("a", 8, 0, 21), ("b", 4, 0, 21), ("b", 8, 0, 20), ("b", 8, 1, 20)
    )
    section = gathered(made)
    assert (section.lead_db, section.complete) == (None, False)
    text, page = page_of(made, tmp_path)
    assert "width 4 and width 8 share the first rank." in page.text
    assert "Not every network has the same number of runs on every image" in text


def test_the_best_redraw_stands_beside_the_source_and_the_best_filter(sweep, tmp_path):
    made = sweep(
        ("a", 4, 0, 20), ("a", 8, 0, 21), ("a", 8, 1, 25), ("b", 4, 0, 24), ("b", 8, 0, 23)
    )
    first, second = gathered(made).bests
    assert (first["label"], first["score_db"], first["plain_db"]) == ("width 8, seed 1", 25, 21.5)
    assert second["label"] == "width 4"
    assert len({first["source"], first["plain"], first["redraw"]}) == 3
    text, _ = page_of(made, tmp_path)
    assert "<b>Lanczos with back-projection</b> 21.5 dB, no network" in text


def test_forty_networks_have_a_colour_each(sweep, tmp_path):
    made = sweep(*(("a", width, 0, width / 2) for width in range(1, 41)))
    section = gathered(made)
    assert len({row["colour"] for row in section.rows}) == 40
    assert [row["label"] for row in section.rows[:2]] == ["width 40", "width 39"]
    text, page = page_of(made, tmp_path)
    assert "url(" not in re.sub(r"url\(#", "", text)
    assert len(page.ids) == len(set(page.ids))
    assert text.count("<title>width 40: A</title>") == 2


def test_names_are_escaped(sweep, tmp_path):
    made = sweep(("a", 4, 0, 20), ("b", 8, 0, 21), base="<i>")
    text, page = page_of(made, tmp_path)
    assert "<i>" not in text
    assert page.tags.count("script") == 1
    svg = inline_svg(scatter([Point('<b>"', 0, 0, 1.0, 2.0, 0.5)], "seconds"), "name")
    assert '<title>&lt;b&gt;"</title>' in svg


def test_the_line_leads_through_what_nothing_cheaper_is_better_than():
    points = [Point("", 0, 0, x, y, None) for x, y in [(3, 5), (1, 2), (2, 1), (1, 1), (4, 5)]]
    assert [(point.x, point.score_db) for point in frontier(points)] == [(1, 2), (3, 5)]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("x", [[], [3.0], [float("nan")], [1.0, 400.0], [0.0, 5.0]])
def test_any_costs_can_be_rendered(x):
    points = [Point("", 0, 9, value, 20.0, None) for value in x]
    assert inline_svg(scatter(points, "seconds"), "name").startswith("<svg")
