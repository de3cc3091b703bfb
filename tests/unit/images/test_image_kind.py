"""Line art is distinguished from other images before the training, so that its edges stay steep."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from neuralfield.images import ImageData, read_facts
from neuralfield.images.facts import is_line_art
from neuralfield.images.reading import read_image
from neuralfield.images.resizing import resize_image
from neuralfield.images.tiling import Tiling
from unpack import main as unpack

RESOURCES = Path(__file__).resolve().parents[3] / "workflow/resources"


@pytest.mark.parametrize("side_px", [64, 200, 474])
@pytest.mark.parametrize("mode", ["bilevel", "grey", "rgb", "rgba"])
def test_a_drawing_is_line_art_at_any_size(side_px, mode):
    drawing = read_image(RESOURCES / "lion_cub.png", mode=mode)
    assert is_line_art(resize_image(drawing, side_px))


@pytest.mark.parametrize("mode", ["grey", "rgb"])
def test_a_painting_is_not(mode):
    assert not is_line_art(read_image(RESOURCES / "savannah.png", mode=mode))


def of_values(values, mode="grey"):
    return ImageData.from_values(np.asarray(values, np.float32), mode, 8)


def test_paper_and_ink_need_not_be_pure():
    drawing = read_image(RESOURCES / "lion_cub.png", mode="grey").values()
    assert is_line_art(of_values(0.08 + 0.86 * drawing))


CHECKS = np.indices((40, 40)).sum(axis=0)[..., None] // 8 % 2


def test_flat_colours_are_not_line_art():
    assert is_line_art(of_values(CHECKS))
    red_and_blue = np.where(CHECKS, [1.0, 0.0, 0.0], [0.0, 0.0, 1.0])
    assert not is_line_art(of_values(red_and_blue, "rgb"))


def test_what_cannot_be_seen_is_not_black():
    ink = np.concatenate([np.repeat(CHECKS, 3, axis=2), np.ones((40, 40, 1))], axis=2)
    assert is_line_art(of_values(ink, "rgba"))
    ink[5:, :, 3] = 0
    assert not is_line_art(of_values(ink, "rgba"))


def test_a_dark_image_without_white_is_not_line_art():
    night = np.random.default_rng(0).uniform(0, 0.13, (40, 40, 1))
    assert not is_line_art(of_values(night))


def test_a_large_image_is_known_by_all_of_its_bands(tmp_path):
    """White above, and colours below: not the line art that its upper half looks like."""
    upper = np.ones((300, 100, 3), np.uint8) * 255
    upper[::10] = 0
    lower = np.tile(np.array([200, 60, 30], np.uint8), (300, 100, 1))
    for name, pixels, kind in (("drawn", [upper, upper], True), ("half", [upper, lower], False)):
        Image.fromarray(np.concatenate(pixels)).save(tmp_path / f"{name}.png")
        facts = tmp_path / f"{name}.json"
        tiling = Tiling(100, 600, 300, 8)
        unpack(tmp_path / f"{name}.png", tmp_path / f"{name}.npy", facts, tiling=tiling)
        assert read_facts(facts)["resized"]["is_line_art"] is kind
