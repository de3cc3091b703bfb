"""PNG files, and other files that libvips saves while their bands are computed."""

import tracemalloc

import numpy as np
import pytest
import pyvips
from noise_images import FORMATS, noise
from PIL import Image

from neuralfield.images import ImageData, read_image, write_bands, write_image
from neuralfield.images.saving import save_streamed

SIZES = [(1, 1), (1, 9), (9, 1), (17, 13)]
WIDTH, HEIGHT = 700, 900


@pytest.mark.parametrize(("mode", "bit_depth"), FORMATS)
@pytest.mark.parametrize("size", SIZES)
def test_every_mode_and_depth_reads_back(tmp_path, mode, bit_depth, size):
    image = noise(size[0], size[1], mode, bit_depth)
    write_image(tmp_path / "a.png", image)
    back = read_image(tmp_path / "a.png", mode=mode)
    assert (back.mode, back.bit_depth) == (mode, bit_depth)
    np.testing.assert_array_equal(back.pixels, image.pixels)
    header = (tmp_path / "a.png").read_bytes()[:29]
    assert (header[24], header[25]) == (bit_depth, {1: 0, 3: 2, 4: 6}[image.channels])
    with Image.open(tmp_path / "a.png") as stored:  # Pillow keeps 8 bits of deep colours
        halved = 8 if bit_depth == 16 and image.channels > 1 else 0
        levels = np.asarray(stored).reshape(image.pixels.shape)
        np.testing.assert_array_equal(levels, image.pixels >> halved)


@pytest.mark.parametrize(("mode", "bit_depth"), FORMATS)
def test_bytes_do_not_depend_on_the_bands(tmp_path, mode, bit_depth):
    image = noise(300, 200, mode, bit_depth)
    write_image(tmp_path / "whole.png", image)
    edges = [(0, 1), (1, 120), (120, 200)]
    write_bands(tmp_path / "a.png", (image.pixels[a:b] for a, b in edges), 300, 200, bit_depth)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "whole.png").read_bytes()


def test_rows_of_any_memory_layout_are_written(tmp_path):
    image = noise(20, 30, "rgb", 16)
    turned = ImageData(image.pixels.swapaxes(0, 1)[::-1], "rgb", 16)
    write_image(tmp_path / "a.png", turned)
    np.testing.assert_array_equal(read_image(tmp_path / "a.png").pixels, turned.pixels)


@pytest.mark.parametrize(
    "band",
    [
        np.zeros((4, 4, 1), np.uint8),
        np.zeros((2, 4, 1), np.uint8),
        np.zeros((1, 3, 1), np.uint8),
        np.zeros((1, 4, 3), np.uint8),
        np.zeros((1, 4, 1), np.uint16),
    ],
)
def test_bands_that_do_not_fit_leave_the_old_file(tmp_path, band):
    path = tmp_path / "a.png"
    write_image(path, noise(4, 4, "grey", 8))
    before = path.read_bytes()
    with pytest.raises(ValueError):
        write_bands(path, [np.zeros((1, 4, 1), np.uint8), band], 4, 4, 8)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_memory_follows_the_band_and_not_the_image(tmp_path):
    band = np.zeros((16, 4096, 3), np.uint8)
    tracemalloc.start()
    write_bands(tmp_path / "a.png", (band for _ in range(128)), 4096, 2048, 8)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 16 * band.nbytes
    assert read_image(tmp_path / "a.png").height == 2048


# --- libvips


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_pixels_arrive_as_they_are(tmp_path, channels, dtype):
    generator = np.random.default_rng(0)
    image = generator.integers(0, np.iinfo(dtype).max + 1, (HEIGHT, WIDTH, channels), dtype)
    bands = (image[top : top + 64] for top in range(0, HEIGHT, 64))
    path, bits = tmp_path / "image.raw", 8 * image.itemsize
    save_streamed(bands, WIDTH, HEIGHT, bits, lambda image: image.rawsave(str(path)))
    np.testing.assert_array_equal(np.fromfile(path, dtype).reshape(image.shape), image)


def test_no_more_bands_are_made_for_a_saver_that_fails():
    made = []

    def bands():
        for number in range(1000):
            made.append(number)
            yield np.zeros((64, WIDTH, 3), np.uint8)

    def fail(image):
        raise pyvips.Error("the network is down")

    with pytest.raises(pyvips.Error, match="the network is down"):
        save_streamed(bands(), WIDTH, 64_000, 8, fail)
    assert len(made) < 1000


def test_an_error_of_the_bands_is_passed_on(tmp_path):
    def bands():
        yield np.zeros((64, WIDTH, 3), np.uint8)
        raise MemoryError("too little")

    with pytest.raises(MemoryError):
        write_bands(tmp_path / "a.png", bands(), WIDTH, HEIGHT, 8)
    assert not list(tmp_path.iterdir())
