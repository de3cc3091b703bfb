"""The benchmark of published protocols keeps the results of a run and reports their means."""

import shutil
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import protocols
import pytest
from measuring.field_runs import Fit
from measuring.measure import Report
from measuring.protocol_rows import PROTOCOLS
from workspace import ROOT

from neuralfield.system.device import select_device

pytestmark = pytest.mark.slow

RESOURCES = ROOT / "workflow" / "resources"


@pytest.fixture
def arguments(tmp_path: Path) -> Callable[..., Namespace]:
    """Return a function that parses the command's options, for tiny networks."""

    def parsed(*options: str) -> Namespace:
        report = str(tmp_path / "report.md")
        quick = ("--quick", "--device", "cpu", "--threads", "1", "--output", report)
        return protocols._parser().parse_args([*quick, *options])

    return parsed


@pytest.fixture
def results_db(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the list from which trainings take their dB; once empty, they interrupt the run."""
    found_db: list[float] = []

    def fit(*_: object) -> Fit:
        if not found_db:
            raise KeyboardInterrupt
        return Fit(parameters=7, steps=3, seconds=1.0, db=found_db.pop(0), lost_db=0.5)

    monkeypatch.setattr(protocols, "fit", fit)
    return found_db


def rows_of(report: Path) -> list[list[str]]:
    """Return the cells of the table, without its header."""
    lines = [line for line in report.read_text().splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]]


def folder_of_images(folder: Path, *names: str) -> Path:
    folder.mkdir()
    for name in names:
        shutil.copy(RESOURCES / "savannah.png", folder / f"{name}.png")
    return folder


def test_a_run_that_is_interrupted_keeps_the_images_it_had(arguments, results_db, tmp_path: Path):
    folder = folder_of_images(tmp_path / "images", "00", "01", "02")
    results_db += [20.0, 30.0]
    options = arguments("--div2k", str(folder), "--rows", "siren, div2k")
    with pytest.raises(KeyboardInterrupt):
        protocols.main(options)
    ((network, image, *_, whose, ours_db, difference, _),) = rows_of(options.output)
    assert (network, image, ours_db) == ("siren", "2 of div2k, 24x16", "25.00")
    assert whose.startswith("FINER++") and float(difference) == pytest.approx(25 - 40.06)


def test_a_run_goes_on_where_a_report_ends(arguments, results_db, tmp_path: Path):
    folder = folder_of_images(tmp_path / "images", "00", "01", "02")
    options = ("--div2k", str(folder), "--rows", "siren, div2k", "--resume")
    results_db += [20.0, 30.0]
    with pytest.raises(KeyboardInterrupt):
        protocols.main(arguments(*options))
    results_db += [46.0]
    assert protocols.main(arguments(*options)) == 0
    report = arguments().output
    ((_, image, *_, ours_db, _, _),) = rows_of(report)
    assert results_db == [] and (image, ours_db) == ("3 of div2k, 24x16", "32.00")
    assert "begun (UTC)" in report.read_text()
    whole = report.read_text()
    assert protocols.main(arguments(*options)) == 0 and rows_of(report)  # nothing is left to train
    assert report.read_text().splitlines()[5:] == whole.splitlines()[5:]
    described = report.with_suffix(".json")
    described.write_text(described.read_text().replace('"NumPy": "', '"NumPy": "0.'))
    with pytest.raises(SystemExit, match="cannot go on with a report of another NumPy: it has 0"):
        protocols.main(arguments(*options))


def test_what_has_nothing_to_be_compared_with_is_not_trained(
    arguments, results_db, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    monkeypatch.setattr(
        protocols, "torch_unsupported_reason", lambda: "PyTorch is not installed here"
    )
    kodak = folder_of_images(tmp_path / "kodak", "kodim15", "kodim03")
    options = arguments("--kodak", str(kodak), "--rows", "as in the paper", "--seeds", "2")
    assert protocols.main(options) == 0
    assert results_db == [] and rows_of(options.output) == []
    assert "siren, as in the paper" in capsys.readouterr().out
    assert "nothing to compare with: PyTorch is not installed" in options.output.read_text()


def test_means_over_seeds_have_their_standard_error_and_are_of_what_both_have(tmp_path: Path):
    folder = folder_of_images(tmp_path / "kodak", "kodim15")
    protocol = next(p for p in PROTOCOLS if p.others_db is None).reduced()
    paths, device = [folder / "kodim15.png"], select_device("cpu")
    comparison = protocols.Comparison(protocol, paths, seeds=4, device=device)
    report, ours_db, theirs_db = Report(), [30.0, 32.0, 31.0, 99.0], [31.0, 31.5, 32.0]
    for training, db in zip(comparison.trainings, ours_db, strict=True):
        report.add("protocols", training.row, protocols.OURS, parameters=7, db=db, lost_db=0.0)
    for training, db in zip(comparison.trainings[:3], theirs_db, strict=True):
        report.add("protocols", training.row, protocols.PAPER, db=db)
    ((_, image, *_, theirs, _, ours, difference, _),) = comparison.lines(report)
    assert (image, theirs, ours) == ("kodim15, 24x16, 3 seeds", "31.50", "31.00")
    mean, error = (float(part) for part in difference.split(" ± "))
    # the differences are -1, 0.5 and -1
    assert (mean, error) == pytest.approx((-0.5, (1.5 / 2) ** 0.5 / 3**0.5), abs=0.01)
