"""Snakemake's own report opens with the best results, and has the captions and the viewers."""

import zipfile
from pathlib import Path

import pytest
from measuring.chromium import BrowserPage
from workspace import Workspace


@pytest.mark.slow
def test_the_report_opens_with_the_results(workspace: Workspace, page: BrowserPage, tmp_path: Path):
    del workspace.settings["fields"]["plain"]
    workspace.settings["render"]["sizes"] = [8, 20]
    workspace.succeed()
    workspace.succeed("--report", "report.zip")
    with zipfile.ZipFile(workspace.path("report.zip")) as archive:
        archive.extractall(tmp_path / "unpacked")
    (path,) = (tmp_path / "unpacked").glob("*/report.html")
    page.open(path, wait=False)
    categories, results = page.run("[categories, results]")
    assert [name[3:] for name in sorted(categories)] == [
        *("All results", "Renders", "Viewers", "Time-lapses", "Trainings", "Numbers"),
    ]
    names = {f"results/{name}" for name in ("report.html", "summary.csv", "tiny/resized.png")}
    own = ("view.html", "render_20.png", "timelapse.mp4", "metrics.json", "history.csv")
    assert names | {f"results/tiny/siren/{name}" for name in own} <= {*results}
    for about in results.values():
        assert len(about["caption"]) > 60 and (path.parent / about["data_uri"]).exists()
    page.wait("document.querySelectorAll('.prose a').length > 0")
    links = page.run("[...document.querySelectorAll('.prose a')].map((link) => link.textContent)")
    assert links == ["report.html", "2. Renders", "3. Viewers", "6. Numbers", "summary.csv"]
    page.run("document.querySelector('.prose a').click()")
    page.wait("document.querySelector('iframe, object, embed, .z-50') !== null")
    for kind in ("view.html", "report.html"):
        (name,) = (name for name in results if name.endswith(kind))
        page.open(path.parent / results[name]["data_uri"], wait=False)
        assert page.errors() == []
