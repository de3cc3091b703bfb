"""Scanned pages are turned until their lines are level, and cropped to what is on them."""

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter

import neuralfield as nf
from neuralfield.images import ImageData
from neuralfield.images.image import image_of_pixels
from neuralfield.images.page import find_page
from neuralfield.system.errors import ConfigError, InputError

_SIDES_PX, _TEXT = (640, 860), (80, 120, 560, 600)


def _scan(clockwise: float, surroundings_px: int = 0) -> ImageData:
    """Return a page with lines of short bars, like words, on shaded paper with noise."""
    page = Image.new("L", _SIDES_PX, 255)
    draw, random = ImageDraw.Draw(page), np.random.default_rng(4)
    left, top, right, bottom = _TEXT
    for y in range(top, bottom, 20):
        ends = np.sort(random.choice(np.arange(left + 4, right - 4, 3), 24, replace=False))
        ends[0], ends[-1] = left, right
        for start, stop in ends.reshape(-1, 2):
            draw.rectangle((int(start), y, int(stop) - 1, y + 9), fill=0)
    turned = page.rotate(-clockwise, Image.Resampling.BICUBIC, expand=True, fillcolor=255)
    shown = Image.new("L", _SIDES_PX, 255)
    shown = shown.rotate(-clockwise, Image.Resampling.BICUBIC, expand=True)
    values = 40 + np.asarray(turned.filter(ImageFilter.GaussianBlur(0.8)), np.float32) * (190 / 255)
    values *= np.linspace(0.92, 1.05, values.shape[1]) + random.normal(0, 0.01, values.shape)
    if surroundings_px:
        values = np.where(np.asarray(shown) > 127, values, 25)
        values = np.pad(values, surroundings_px, constant_values=25)
    return image_of_pixels(np.clip(values, 0, 255).astype(np.uint8)[..., None])


@pytest.mark.parametrize(("clockwise", "surroundings_px"), [(1.7, 0), (-3.2, 30), (0.0, 30)])
def test_a_page_is_turned_and_cropped(clockwise, surroundings_px):
    found = find_page(_scan(clockwise, surroundings_px), True)
    assert found is not None
    assert found.degrees == pytest.approx(-clockwise, abs=0.15)
    left, top, right, bottom = _TEXT
    assert found.image.width == pytest.approx(right - left + 54, abs=16)
    assert found.image.height == pytest.approx(bottom - top + 54, abs=16)
    assert np.percentile(found.image.pixels[:3], 5) > 150  # no surroundings are left
    cropped = f"cropped to {found.image.width} x {found.image.height}"
    turned = {1.7: "counterclockwise, ", -3.2: "clockwise, ", 0.0: ""}[clockwise]
    assert str(found).startswith("turned by" if clockwise else cropped)
    assert str(found).endswith(turned + cropped)


def test_each_part_can_be_left_out_or_given():
    scan = _scan(1.7)
    assert find_page(scan, False) is None
    assert find_page(scan, {}) is None
    turned = find_page(scan, {"deskew": True})
    assert turned is not None
    assert turned.image.width > scan.width
    assert "cropped" not in str(turned)
    by_hand = find_page(scan, {"deskew": -1.5})
    assert by_hand is not None
    assert str(by_hand) == "turned by 1.5 degrees counterclockwise"
    cropped = find_page(scan, {"crop": True})
    assert cropped is not None
    assert cropped.degrees == 0
    assert cropped.image.height < scan.height


def test_colours_and_depth_are_kept():
    grey = _scan(1.7).pixels.astype(np.uint16) * 257
    colour = np.concatenate([grey, grey // 2, grey // 4], axis=2)
    found = find_page(ImageData(colour, "rgb", 16), True)
    assert found is not None
    assert (found.image.mode, found.image.bit_depth) == ("rgb", 16)
    means = found.image.values().mean(axis=(0, 1))
    np.testing.assert_allclose(means / means[0], [1, 1 / 2, 1 / 4], atol=0.01)


def test_paper_in_shadow_is_not_cropped():
    scan = _scan(0.0).values()
    shade = np.minimum(1, 0.3 + np.arange(scan.shape[1]) / 500)[:, None]  # as beside a book's spine
    found = find_page(ImageData.from_values(scan * shade, "grey", 8), {"crop": True})
    assert found is not None
    assert found.image.width == pytest.approx(_TEXT[2] - _TEXT[0] + 54, abs=16)


def test_a_drawing_without_lines_is_not_turned():
    y, x = np.mgrid[:300, :300]
    rings = (np.hypot(x - 140, y - 160) % 30 < 3) & (np.hypot(x - 140, y - 160) < 120)
    image = ImageData.from_values(1.0 - rings[..., None], "grey", 8)
    found = find_page(image, {"deskew": True})
    assert found is not None
    assert str(found) == "neither turned nor cropped"
    np.testing.assert_array_equal(found.image.pixels, image.pixels)


def test_mistakes():
    scan = _scan(0.0)
    with pytest.raises(ConfigError, match="45 degrees"):
        find_page(scan, {"deskew": 90})
    with pytest.raises(ConfigError, match="deskew or crop"):
        find_page(scan, {"rotate": True})
    with pytest.raises(TypeError, match="page: crop"):
        find_page(scan, {"crop": 2})
    with pytest.raises(InputError, match="transparent"):
        find_page(scan.converted("rgba"), True)


def test_a_fit_is_of_the_page(tmp_path, caplog):
    path = tmp_path / "scan.png"
    Image.fromarray(_scan(1.7).pixels[..., 0]).save(path)
    settings = {"steps": 1, "width": 8, "hidden_layers": 1, "device": "cpu", "size": 64}
    with caplog.at_level("INFO"):
        field = nf.fit(path, page=True, **settings)
    assert "turned by 1.7 degrees counterclockwise, cropped to " in caplog.text
    assert field.width == 64
    assert field.height > 60  # and not that of the scan, 47
