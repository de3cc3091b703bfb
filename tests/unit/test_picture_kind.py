"""Line art is told from other pictures by what is taught, so that its edges are kept steep."""

from pathlib import Path

import numpy as np
import pytest

from neuralfield.images.kind import is_line_art
from neuralfield.images.reading import read_picture
from neuralfield.images.resizing import resize_picture

RESOURCES = Path(__file__).resolve().parents[2] / "workflow/resources"


@pytest.mark.parametrize("side_px", [64, 200, 474])
@pytest.mark.parametrize("mode", ["bilevel", "grey", "rgb", "rgba"])
def test_a_drawing_is_line_art_at_any_size(side_px, mode):
    drawing = resize_picture(read_picture(RESOURCES / "lion_cub.png", mode=mode), side_px)
    assert is_line_art(drawing.values())


@pytest.mark.parametrize("mode", ["grey", "rgb"])
def test_a_painting_is_not(mode):
    assert not is_line_art(read_picture(RESOURCES / "savannah.png", mode=mode).values())


def test_paper_and_ink_need_not_be_pure():
    drawing = resize_picture(read_picture(RESOURCES / "lion_cub.png", mode="grey"), 200)
    assert is_line_art(0.08 + 0.86 * drawing.values())


def test_flat_colours_are_not_line_art():
    checks = np.indices((40, 40)).sum(axis=0)[..., None] // 8 % 2
    red_and_blue = np.where(checks, [1.0, 0.0, 0.0], [0.0, 0.0, 1.0])
    assert not is_line_art(red_and_blue)
    assert is_line_art(checks.astype(np.float32))
