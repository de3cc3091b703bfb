"""Images that libvips saves while they are being made."""

import numpy as np
import pytest
import pyvips

from neuralfield.images.streaming import save_streamed

WIDTH, HEIGHT = 700, 900


def bands_of(image, rows=64):
    return (image[top : top + rows] for top in range(0, len(image), rows))


def saved(path):
    return lambda image: image.rawsave(str(path))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_pixels_arrive_as_they_are(tmp_path, channels, dtype):
    generator = np.random.default_rng(0)
    image = generator.integers(0, np.iinfo(dtype).max + 1, (HEIGHT, WIDTH, channels), dtype)
    save_streamed(bands_of(image), WIDTH, HEIGHT, saved(tmp_path / "image.raw"))
    found = np.fromfile(tmp_path / "image.raw", dtype).reshape(image.shape)
    np.testing.assert_array_equal(found, image)


def test_no_more_bands_are_made_for_a_saver_that_fails():
    made = []

    def bands():
        for number in range(1000):
            made.append(number)
            yield np.zeros((64, WIDTH, 3), np.uint8)

    def fail(image):
        raise pyvips.Error("the disk is full")

    with pytest.raises(pyvips.Error, match="the disk is full"):
        save_streamed(bands(), WIDTH, 64_000, fail)
    assert len(made) < 1000


@pytest.mark.parametrize("rows", [0, HEIGHT - 1])
def test_rows_that_are_missing_are_an_error(tmp_path, rows):
    bands = [np.zeros((rows, WIDTH, 3), np.uint8)] if rows else []
    with pytest.raises(ValueError, match="were never given"):
        save_streamed(bands, WIDTH, HEIGHT, saved(tmp_path / "image.raw"))


def test_an_error_of_the_bands_is_passed_on(tmp_path):
    def bands():
        yield np.zeros((64, WIDTH, 3), np.uint8)
        raise MemoryError("too little")

    with pytest.raises(MemoryError):
        save_streamed(bands(), WIDTH, HEIGHT, saved(tmp_path / "image.raw"))
