"""Images in memory: levels, light, and conversions between modes."""

import numpy as np
import pytest

from neuralfield.images import ImageData, convert_values


def one_pixel(levels: list[int], mode: str, bit_depth: int = 8) -> ImageData:
    dtype = np.uint16 if bit_depth == 16 else np.uint8
    return ImageData(np.array([[levels]], dtype), mode, bit_depth)


@pytest.mark.parametrize(("mode", "bit_depth"), [("bilevel", 1), ("grey", 8), ("grey", 16)])
def test_every_level_survives_as_light(mode, bit_depth):
    levels = np.arange(2**bit_depth).reshape(1, -1, 1)
    pixel_data = ImageData(
        levels.astype(np.uint16 if bit_depth == 16 else np.uint8), mode, bit_depth
    )
    values = pixel_data.values()
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values, (levels / (2**bit_depth - 1)).astype(np.float32))
    back = ImageData.from_values(values, mode, bit_depth)
    np.testing.assert_array_equal(back.pixels, pixel_data.pixels)


@pytest.mark.parametrize(
    ("pixels", "mode", "bit_depth"),
    [
        (np.zeros((2, 2, 3), np.uint8), "grey", 8),
        (np.zeros((2, 2), np.uint8), "grey", 8),
        (np.zeros((0, 2, 1), np.uint8), "grey", 8),
        (np.zeros((2, 2, 1), np.uint8), "grey", 16),
        (np.zeros((2, 2, 1), np.uint8), "grey", 1),
        (np.zeros((2, 2, 1), np.uint8), "bilevel", 8),
        (np.full((2, 2, 1), 2, np.uint8), "bilevel", 1),
        (np.zeros((2, 2, 1), np.uint8), "cmyk", 8),
    ],
)
def test_contradictions_are_refused(pixels, mode, bit_depth):
    with pytest.raises(ValueError):
        ImageData(pixels, mode, bit_depth)


def test_light_is_clipped_and_rounded():
    values = np.array([-0.5, 0.4 / 255, 0.6 / 255, 2.0], np.float32).reshape(1, 4, 1)
    assert ImageData.from_values(values, "grey", 8).pixels.ravel().tolist() == [0, 0, 1, 255]
    with pytest.raises(ValueError, match="NaN"):
        ImageData.from_values(np.full((1, 1, 1), np.nan, np.float32), "grey", 8)


def test_grey_is_luma():
    assert one_pixel([200, 100, 50], "rgb").converted("grey").pixels.item() == 124
    for bit_depth in (8, 16):
        white = 2**bit_depth - 1
        assert one_pixel([white] * 3, "rgb", bit_depth).converted("grey").pixels.item() == white
    assert one_pixel([255] * 3, "rgb").converted("bilevel", 1.0).pixels.item() == 1


def test_equal_channels_become_the_same_grey():
    levels = np.repeat(np.arange(65536, dtype=np.uint16), 3).reshape(256, 256, 3)
    grey = ImageData(levels, "rgb", 16).converted("grey")
    np.testing.assert_array_equal(grey.pixels[..., 0], levels[..., 0])


def test_alpha_is_laid_over_white():
    assert one_pixel([0, 0, 0, 0], "rgba").converted("rgb").pixels.tolist() == [[[255] * 3]]
    assert one_pixel([0, 0, 0, 51], "rgba").converted("grey").pixels.item() == 204
    assert one_pixel([0, 0, 0, 255], "rgba").converted("bilevel").pixels.item() == 0


def test_more_channels_repeat_grey_and_are_opaque():
    bilevel = one_pixel([1], "bilevel", 1)
    assert bilevel.converted("grey").bit_depth == 8
    assert bilevel.converted("rgba").pixels.tolist() == [[[255] * 4]]
    assert one_pixel([7], "grey", 16).converted("rgba").pixels.tolist() == [[[7, 7, 7, 65535]]]


def test_conversion_of_a_large_image_is_the_same_in_bands():
    rng = np.random.default_rng(5)
    pixel_data = ImageData(rng.integers(0, 256, (2500, 700, 3), np.uint8), "rgb", 8)
    whole = convert_values(pixel_data.values(), 1)
    expected = np.rint(whole * np.float32(255)).astype(np.uint8)
    np.testing.assert_array_equal(pixel_data.converted("grey").pixels, expected)
