"""The benchmarks run on a machine without a GPU, although their times mean nothing there."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from measuring import bicubic
from measuring.artefacts import Artefacts
from measuring.rate_curves import BPG, COOL_CHIC, bd_rate_percent
from super_resolution import luma, quality
from workspace import ROOT, succeed_in

PROGRAMS = sorted(path.name for path in (ROOT / "benchmarks").glob("*.py"))
OPTIONS = ("--quick", "--device", "cpu", "--no-peers", "--threads", "1", "--rounds", "1")


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_starts(program):
    succeed_in(ROOT, [sys.executable, f"benchmarks/{program}", "--help"])


@pytest.mark.slow
def test_steps_and_renders_are_timed_without_a_gpu(tmp_path: Path):
    report = tmp_path / "report.md"
    command = [sys.executable, "benchmarks/speed.py", *OPTIONS, "--sample-s", "0.01"]
    written = succeed_in(ROOT, [*command, "--output", str(report)])
    assert report.read_text() in written
    found = json.loads(report.with_suffix(".json").read_text())
    assert "tiny" in found["environment"]["sizes"]
    entries = found["entries"]  # kernels cover all fields: nothing is left out
    assert {(e["part"], e["system"]) for e in entries} == {
        *(("steps", "cpu float32"), ("steps", "tape float32"), ("drawing", "ours"))
    }
    assert all(e["milliseconds"] > 0 for e in entries)


def test_specks_and_ringing_are_found_where_they_are():
    truth = np.zeros((40, 40, 1), np.float32)
    truth[:, 20:] = 1
    clean = Artefacts.of(truth, truth, factor=2)
    assert (clean.specks, clean.ringing) == (0, 0)
    speck, ringing = truth.copy(), truth.copy()
    speck[10, 8] = 0.2
    assert Artefacts.of(speck, truth, factor=2).specks == pytest.approx(51)
    ringing[:, 17] = -0.1  # on the dark side of the edge: near white pixels, but darker than black
    found = Artefacts.of(ringing, truth, factor=2)
    assert found.ringing == pytest.approx(25.5)
    assert found.specks == 0  # it is at an edge, where the truth is not flat


def imresize(values: np.ndarray, factor: int) -> np.ndarray:
    """Reduce the first axis as MATLAB's imresize does: a widened Keys kernel, mirrored edges."""
    length = len(values)
    means = []
    for place in (np.arange(length // factor) + 0.5) * factor - 0.5:
        near = np.arange(int(place) - 3 * factor, int(place) + 3 * factor + 1)
        x = np.abs(place - near) / factor
        outer = -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2
        weights = np.where(x < 1, 1.5 * x**3 - 2.5 * x**2 + 1, np.where(x < 2, outer, 0))
        mirrored = np.where(near < 0, -1 - near, near)
        mirrored = np.where(mirrored >= length, 2 * length - 1 - mirrored, mirrored)
        means.append(np.tensordot(weights / weights.sum(), values[mirrored], 1))
    return np.array(means)


@pytest.mark.parametrize("factor", [2, 3, 4])
def test_images_are_reduced_as_by_imresize(factor):
    values = np.random.default_rng(0).random((24, 36, 3))
    expected = imresize(imresize(values, factor).swapaxes(0, 1), factor).swapaxes(0, 1)
    small = bicubic.reduced(values, factor)
    np.testing.assert_allclose(small, expected, atol=1e-6)
    corrected = bicubic.back_projected(bicubic.enlarged(small, factor), small, factor)
    before, after = (
        np.abs(bicubic.reduced(image, factor) - small).mean()
        for image in (bicubic.enlarged(small, factor), corrected)
    )
    assert after < 0.25 * before


def test_papers_compare_the_luma_without_borders():
    black, white = np.zeros((24, 24, 3)), np.ones((24, 24, 3))
    np.testing.assert_allclose(luma(np.stack([black, white])[:, 0, 0]) * 255, [16, 235])
    spoiled = white.copy()
    spoiled[:2], spoiled[:, -2:] = 0, 0.5
    assert quality(spoiled, white, 2).db == np.inf
    # the lumas differ by 219 of 255 levels
    assert quality(black, white, 2).db == pytest.approx(20 * np.log10(255 / 219))


def test_bd_rates_are_those_of_the_literature():
    rates = [bd_rate_percent(curve, BPG[image]) for image, curve in COOL_CHIC.items()]
    assert np.mean(rates) == pytest.approx(-26, abs=1)
    anchor = BPG["kodim15"]
    assert bd_rate_percent([(0.9 * bits, db) for bits, db in anchor], anchor) == pytest.approx(-10)
    assert np.isnan(bd_rate_percent([(1.0, 60.0), (2.0, 70.0)], anchor))
