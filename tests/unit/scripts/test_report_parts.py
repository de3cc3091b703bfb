"""The parts of reports: crops, curves, and numbers in words."""

import re

import numpy as np
import pytest

from neuralfield.images.detail import most_detailed_box
from reporting.plots import Curve, inline_svg, learning_curves


def test_the_crop_lies_where_the_detail_is():
    values = np.zeros((200, 300, 1))
    # Strong but coarse on the left, finely striped on the right.
    values[:, :80] = 1
    values[100:140, 200:240:2] = 1
    left, top, right, bottom = most_detailed_box(values, 4)
    assert right - left == bottom - top == 50
    assert left <= 200 < 239 < right
    assert top <= 100 < 139 < bottom


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 200, 3), (40, 3, 4), (32, 32, 1)])
def test_the_crop_fits_into_any_image(shape):
    left, top, right, bottom = most_detailed_box(np.random.default_rng(0).random(shape), 5)
    assert 0 <= left < right <= shape[1]
    assert 0 <= top < bottom <= shape[0]
    assert right - left == bottom - top


def test_curves_take_everything_from_the_page():
    curve = Curve(2, np.array([0, 1, 10, 100]), np.array([5.0, 6.0, np.inf, 20.0]))
    svg = inline_svg(learning_curves([curve], "steps"), "name")
    assert "var(--series-2)" in svg and "var(--muted)" in svg
    assert not re.search(r"#[0-9a-f]{6}[^0-9a-f]|font-family|<style", svg)
    assert all(name.startswith("name-") for name in re.findall(r'\bid="([^"]*)', svg))
    (line,) = re.findall(r'd="([^"]*)" [^>]*stroke: var\(--series-2\)', svg)
    assert line.count("L") == 1, "of infinite values and of step 0 none"
    assert ">steps</text>" in svg


@pytest.mark.parametrize("x", [[1.0], [0.0]])
@pytest.mark.filterwarnings("error")
def test_a_curve_of_one_point_or_none(x):
    curve = Curve(0, np.array(x), np.array([5.0]))
    assert inline_svg(learning_curves([curve], "steps"), "name").startswith("<svg")
