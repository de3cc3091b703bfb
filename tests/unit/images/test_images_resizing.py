"""Resizing, compared with means and filters computed by hand."""

import numpy as np
import pytest
from noise_images import noise

from neuralfield.images import ImageData, resize_image
from neuralfield.images.metrics import as_seen
from neuralfield.system.errors import ConfigError


@pytest.mark.parametrize(
    ("own", "size", "expected"),
    [
        ((100, 50), 10, (10, 5)),
        ((50, 100), 10, (5, 10)),
        ((100, 1), 10, (10, 1)),  # at least one pixel
        ((1, 1), 7, (7, 7)),
        ((4, 3), 6, (6, 5)),  # 4.5 is rounded up
        ((100, 50), (3, 7), (3, 7)),
        ((100, 50), [3, 7], (3, 7)),
        ((100, 50), np.int64(10), (10, 5)),
        ((100, 50), None, (100, 50)),
    ],
)
def test_size(own, size, expected):
    pixel_data = resize_image(noise(own[0], own[1], "grey", 8), size)
    assert (pixel_data.width, pixel_data.height) == expected


@pytest.mark.parametrize(
    ("mode", "bit_depth"), [("grey", 8), ("rgb", 8), ("grey", 16), ("rgb", 16)]
)
def test_box_makes_means_of_the_same_depth(mode, bit_depth):
    pixel_data = noise(20, 12, mode, bit_depth)
    reduced = resize_image(pixel_data, 5)
    means = pixel_data.pixels.reshape(3, 4, 5, 4, -1).mean(axis=(1, 3))
    assert (reduced.mode, reduced.bit_depth) == (mode, bit_depth)
    assert np.abs(reduced.pixels - means).max() <= 0.51


@pytest.mark.parametrize("filter", ["box", "lanczos", "bicubic", "back_projection"])
@pytest.mark.parametrize("size", [5, 12, 31])
@pytest.mark.parametrize("level", [0, 77, 65535])
def test_a_flat_image_stays_flat(filter, size, level):
    flat = ImageData(np.full((12, 9, 3), level, np.uint16), "rgb", 16)
    assert np.unique(resize_image(flat, size, filter).pixels).tolist() == [level]


def test_box_repeats_pixels_when_it_enlarges():
    pixel_data = noise(4, 3, "rgb", 8)
    enlarged = resize_image(pixel_data, 12)
    np.testing.assert_array_equal(enlarged.pixels, pixel_data.pixels.repeat(3, 0).repeat(3, 1))


@pytest.mark.parametrize("filter", ["lanczos", "bicubic"])
def test_overshoot_is_clipped(filter):
    edge = np.repeat(np.array([0, 255], np.uint8), 8).reshape(1, 16, 1).repeat(4, 0)
    enlarged = resize_image(ImageData(edge, "grey", 8), 64, filter)
    assert enlarged.pixels.min() == 0
    assert enlarged.pixels.max() == 255
    assert np.all(np.diff(enlarged.pixels[0, 26:38, 0].astype(int)) >= 0)


@pytest.mark.parametrize("size_px", [(80, 48), (53, 41)])
@pytest.mark.parametrize("mode", ["grey", "rgb", "rgba"])
def test_back_projection_agrees_with_the_image(mode, size_px):
    image = resize_image(noise(100, 60, mode, 16), (20, 12))
    away = {}
    for filter in ("lanczos", "back_projection"):
        enlarged = resize_image(image, size_px, filter)
        again = resize_image(enlarged, (20, 12))
        away[filter] = np.sqrt(np.mean((as_seen(again.values()) - as_seen(image.values())) ** 2))
    assert away["back_projection"] < 0.25 * away["lanczos"]


def test_the_image_does_not_move():
    ramp = np.linspace(0, 65535, 64).round().astype(np.uint16).reshape(1, 64, 1).repeat(4, 0)
    for filter in ("box", "lanczos", "bicubic", "back_projection"):
        reduced = resize_image(ImageData(ramp, "grey", 16), 16, filter).pixels[0, :, 0].astype(int)
        np.testing.assert_allclose(reduced + reduced[::-1], 65535, atol=2)


def test_a_drawing_becomes_grey_means():
    drawing = noise(40, 40, "bilevel", 1)
    reduced = resize_image(drawing, 10)
    assert (reduced.mode, reduced.bit_depth) == ("grey", 8)
    means = drawing.pixels.reshape(10, 4, 10, 4).mean(axis=(1, 3)) * 255
    assert np.abs(reduced.pixels[..., 0] - means).max() <= 0.51


@pytest.mark.parametrize("size", [None, 40, (40, 40)])
def test_a_drawing_of_its_own_size_stays_as_it_is(size):
    drawing = noise(40, 40, "bilevel", 1)
    assert resize_image(drawing, size) is drawing


def test_a_drawing_is_made_bilevel_after_the_reduction():
    drawing = ImageData(np.array([[1, 0, 0, 0], [0, 0, 1, 1]], np.uint8)[..., None], "bilevel", 1)
    reduced = resize_image(drawing, (2, 1), threshold=0.25, mode="bilevel")
    assert (reduced.mode, reduced.pixels.ravel().tolist()) == ("bilevel", [1, 1])
    reduced = resize_image(drawing, (2, 1), threshold=0.26, mode="bilevel")
    assert reduced.pixels.ravel().tolist() == [0, 1]


def test_hidden_colour_does_not_bleed():
    pixels = np.zeros((2, 4, 4), np.uint8)
    pixels[:, 0] = [200, 100, 50, 255]
    pixels[:, 1] = [0, 255, 255, 0]  # transparent: must not tint its neighbour
    pixels[:, 2:] = [9, 9, 9, 0]
    reduced = resize_image(ImageData(pixels, "rgba", 8), (2, 1))
    assert reduced.pixels[0, 0].tolist() == [200, 100, 50, 128]
    assert reduced.pixels[0, 1].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("size", [0, -3, 2.5, "large", (3,), (3, 0), (1, 2, 3), []])
def test_wrong_sizes_are_refused(size):
    with pytest.raises(ConfigError, match=r"size: .*whole number of pixels"):
        resize_image(noise(4, 4, "grey", 8), size)


def test_wrong_filter_and_mode_are_refused():
    with pytest.raises(ConfigError, match="box, lanczos, bicubic"):
        resize_image(noise(4, 4, "grey", 8), 2, "nearest")
    with pytest.raises(ConfigError, match="auto, bilevel"):
        resize_image(noise(4, 4, "grey", 8), 2, mode="sepia")
