"""Detection of an image's kind before training: line art, a page of mixed kind, or others."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from measuring.drawing_kinds import drawing_of
from measuring.page_layouts import PAGES, mixed_page
from PIL import Image

from neuralfield.images import ImageData, read_facts
from neuralfield.images.image_facts import facts_of_tile, kind_facts, kind_in
from neuralfield.images.image_file import read_image
from neuralfield.images.kind import Kind, kind_of
from neuralfield.images.resizing import resize_image
from neuralfield.images.tiling import Tiling
from unpack import main as unpack

RESOURCES = Path(__file__).resolve().parents[3] / "workflow/resources"


def is_line_art(image: ImageData) -> bool:
    return kind_of(image) == Kind.LINE_ART


@pytest.mark.parametrize("side_px", [64, 200, 474])
@pytest.mark.parametrize("mode", ["bilevel", "grey", "rgb", "rgba"])
def test_a_drawing_is_line_art_at_any_size(side_px, mode):
    drawing = read_image(RESOURCES / "lion_cub.png", mode=mode)
    assert is_line_art(resize_image(drawing, side_px))


@pytest.mark.parametrize("mode", ["grey", "rgb"])
def test_a_painting_is_not(mode):
    assert kind_of(read_image(RESOURCES / "savannah.png", mode=mode)) == Kind.PHOTOGRAPH


@pytest.mark.parametrize("kind", ["text", "contours", "hatching", "engraving", "circuit"])
def test_thin_and_grey_lines_are_no_photographs(kind):
    """Dashed contours a third of a pixel wide have no black; grey lines have no white either."""
    drawing = resize_image(of_values(drawing_of(kind, "b", 400)), 200)
    is_thin = kind == "contours"
    assert kind_of(drawing) == (Kind.GREY_LINES if is_thin else Kind.LINE_ART)
    assert kind_of(of_values(0.45 + 0.45 * drawing.values())) == Kind.GREY_LINES


def test_noise_of_a_scan_makes_no_difference():
    noise = np.random.default_rng(0).normal(0, 3 / 255, (300, 300, 1))
    drawing = 0.05 + 0.9 * drawing_of("text", "b", 300) + noise
    assert is_line_art(of_values(np.clip(drawing, 0, 1)))


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name in PAGES for kind in PAGES[name]])
def test_a_page_with_an_image_is_mixed(name, kind):
    page = mixed_page(name, kind, read_image(RESOURCES / "savannah.png"), 400)
    assert kind_of(resize_image(page, 200)) == Kind.MIXED


def of_values(values, mode="grey"):
    return ImageData.from_values(np.asarray(values, np.float32), mode, 8)


CHECKS = np.indices((40, 40)).sum(axis=0)[..., None] // 8 % 2


def test_only_two_opaque_tones_of_which_one_is_light_are_line_art():
    drawing = read_image(RESOURCES / "lion_cub.png", mode="grey").values()
    assert is_line_art(of_values(0.08 + 0.86 * drawing))  # paper and ink need not be pure
    ink = np.concatenate([np.repeat(CHECKS, 3, axis=2), np.ones((40, 40, 1))], axis=2)
    assert is_line_art(of_values(CHECKS)) and is_line_art(of_values(ink, "rgba"))
    ink[5:, :, 3] = 0
    red_and_blue = np.where(CHECKS, [1.0, 0.0, 0.0], [0.0, 0.0, 1.0])
    night = np.random.default_rng(0).uniform(0, 0.13, (40, 40, 1))
    for values, mode in ((ink, "rgba"), (red_and_blue, "rgb"), (night, "grey")):
        assert not is_line_art(of_values(values, mode))


def test_a_tile_is_of_the_kind_of_its_image():
    described = {"mode": "grey", "width": 100, "height": 600, "bit_depth": 8}
    for kind in Kind:
        facts = {"source": described, "resized": described | kind_facts(kind)}
        for tile in Tiling(100, 600, 300, 8):
            assert kind_in(facts_of_tile(facts, tile)) == kind


def test_a_large_image_is_known_by_all_of_its_bands(tmp_path):
    """The image has lines above many tones; its upper half alone would be line art."""
    upper = np.ones((300, 100, 3), np.uint8) * 255
    upper[::10] = 0
    lower = np.tile(np.linspace(0, 255, 300, dtype=np.uint8)[:, None, None], (1, 100, 3))
    kinds = {"drawn": Kind.LINE_ART, "half": Kind.MIXED}
    for name, pixels in (("drawn", [upper, upper]), ("half", [upper, lower])):
        Image.fromarray(np.concatenate(pixels)).save(tmp_path / f"{name}.png")
        facts = tmp_path / f"{name}.json"
        tiling = Tiling(100, 600, 300, 8)
        unpack(tmp_path / f"{name}.png", tmp_path / f"{name}.npy", facts, tiling=asdict(tiling))
        assert kind_in(read_facts(facts)) == kinds[name]
