"""PNG files as other programs read them."""

import tracemalloc

import numpy as np
import pytest
from PIL import Image

from neuralfield.images import ImageData, PngBandWriter, read_image, write_image

FORMATS = [("bilevel", 1), *((m, d) for m in ("grey", "rgb", "rgba") for d in (8, 16))]
SIZES = [(1, 1), (1, 9), (9, 1), (17, 13)]


def noise(width: int, height: int, mode: str, bit_depth: int) -> ImageData:
    channels = {"bilevel": 1, "grey": 1, "rgb": 3, "rgba": 4}[mode]
    levels = np.random.default_rng(7).integers(0, 2**bit_depth, (height, width, channels))
    return ImageData(levels.astype(np.uint16 if bit_depth == 16 else np.uint8), mode, bit_depth)


@pytest.mark.parametrize(("mode", "bit_depth"), FORMATS)
@pytest.mark.parametrize("size", SIZES)
def test_every_mode_and_depth_reads_back(tmp_path, mode, bit_depth, size):
    pixel_data = noise(size[0], size[1], mode, bit_depth)
    write_image(tmp_path / "a.png", pixel_data)
    back = read_image(tmp_path / "a.png", mode=mode)
    assert (back.mode, back.bit_depth) == (mode, bit_depth)
    np.testing.assert_array_equal(back.pixels, pixel_data.pixels)


@pytest.mark.parametrize(("mode", "bit_depth"), FORMATS)
def test_pillow_sees_the_right_kind_of_file(tmp_path, mode, bit_depth):
    pixel_data = noise(17, 13, mode, bit_depth)
    write_image(tmp_path / "a.png", pixel_data)
    header = (tmp_path / "a.png").read_bytes()[:29]
    assert header[24] == bit_depth
    assert header[25] == {1: 0, 3: 2, 4: 6}[pixel_data.channels]
    with Image.open(tmp_path / "a.png") as image:
        stored = np.asarray(image).reshape(13, 17, -1)
    if bit_depth == 16 and pixel_data.channels > 1:
        np.testing.assert_array_equal(
            stored, pixel_data.pixels >> 8
        )  # Pillow keeps 8 bits of such images
    else:
        np.testing.assert_array_equal(stored, pixel_data.pixels)


@pytest.mark.parametrize(("mode", "bit_depth"), FORMATS)
def test_bytes_do_not_depend_on_the_bands(tmp_path, mode, bit_depth):
    pixel_data = noise(300, 200, mode, bit_depth)
    write_image(tmp_path / "whole.png", pixel_data)
    with PngBandWriter(tmp_path / "bands.png", 300, 200, pixel_data.channels, bit_depth) as png:
        for start, end in [(0, 1), (1, 1), (1, 120), (120, 200)]:
            png.write_rows(pixel_data.pixels[start:end])
    assert (tmp_path / "bands.png").read_bytes() == (tmp_path / "whole.png").read_bytes()


def test_rows_of_any_memory_layout_are_written(tmp_path):
    pixel_data = noise(20, 30, "rgb", 16)
    turned = ImageData(pixel_data.pixels.swapaxes(0, 1)[::-1], "rgb", 16)
    write_image(tmp_path / "a.png", turned)
    np.testing.assert_array_equal(read_image(tmp_path / "a.png").pixels, turned.pixels)


def test_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.png"
    write_image(path, noise(4, 4, "grey", 8))
    before = path.read_bytes()
    with pytest.raises(KeyboardInterrupt), PngBandWriter(path, 4, 4, 1, 8) as png:
        png.write_rows(np.zeros((2, 4, 1), np.uint8))
        raise KeyboardInterrupt
    with pytest.raises(ValueError, match="2 rows"), PngBandWriter(path, 4, 4, 1, 8) as png:
        png.write_rows(np.zeros((2, 4, 1), np.uint8))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "rows",
    [
        np.zeros((5, 4, 1), np.uint8),
        np.zeros((1, 3, 1), np.uint8),
        np.zeros((1, 4, 3), np.uint8),
        np.zeros((1, 4, 1), np.uint16),
        np.zeros((1, 4, 1), np.float32),
    ],
)
def test_rows_that_do_not_fit_are_refused(tmp_path, rows):
    with pytest.raises(ValueError), PngBandWriter(tmp_path / "a.png", 4, 4, 1, 8) as png:
        png.write_rows(rows)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format", [(0, 1, 1, 8), (1, 1, 3, 1), (1, 1, 2, 8), (1, 2**31, 1, 8)])
def test_no_such_png(tmp_path, format):
    with pytest.raises(ValueError):
        PngBandWriter(tmp_path / "a.png", *format)


def test_memory_follows_the_band_and_not_the_image(tmp_path):
    band = np.zeros((16, 4096, 3), np.uint8)
    tracemalloc.start()
    with PngBandWriter(tmp_path / "a.png", 4096, 2048, 3, 8) as png:
        for _ in range(2048 // 16):
            png.write_rows(band)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 4 * band.nbytes
    with Image.open(tmp_path / "a.png") as image:
        assert image.size == (4096, 2048)
