"""Large images read in bands or windows equal those read at once."""

import numpy as np
import pytest
import tifffile
from PIL import Image

from neuralfield.images import (
    ImageData,
    Overview,
    PixelFile,
    choose_mode,
    image_file,
    read_header,
    read_image,
    read_image_bands,
    resize_image,
    write_image,
    write_pixel_file,
)
from neuralfield.system.errors import InputError

RNG = np.random.default_rng(5)
GREY = RNG.integers(0, 256, (37, 53), np.uint8)
RGB = RNG.integers(0, 256, (37, 53, 3), np.uint8)
RGBA = RNG.integers(0, 256, (37, 53, 4), np.uint8)
DEEP = RNG.integers(0, 65536, (37, 53, 3)).astype(np.uint16)


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    """Limit bands to five rows of a colour image."""
    monkeypatch.setattr(image_file, "BAND_VALUES", 5 * 53 * 3)


def write(path, pixels, **options):
    if path.suffix == ".tif":
        photometric = "rgb" if pixels.ndim == 3 else "minisblack"
        tifffile.imwrite(path, pixels, photometric=photometric, **options)
    else:
        Image.fromarray(pixels).save(path, **options)
    return path


@pytest.mark.parametrize("name", ["a.tif", "a.png"])
@pytest.mark.parametrize(
    "pixels",
    [
        GREY,
        RGB,
        RGBA,
        (GREY > 99) * np.uint8(255),
        np.repeat(GREY[..., None], 3, 2),
        np.dstack([RGB, np.full_like(GREY, 255)]),
    ],
    ids=["grey", "rgb", "rgba", "bilevel", "grey as rgb", "opaque"],
)
@pytest.mark.parametrize("mode", ["auto", "grey", "rgb"])
def test_bands_are_the_whole_image(tmp_path, name, pixels, mode):
    path = write(tmp_path / name, pixels)
    expect_the_same(path, mode)


@pytest.mark.parametrize(
    "options",
    [
        {"rowsperstrip": 4},
        {"rowsperstrip": 37},
        {"rowsperstrip": 3, "compression": "zlib"},
        {"tile": (16, 32)},
        {"tile": (16, 32), "compression": "zlib"},
        {"tile": (16, 16), "bigtiff": True},
        {"tile": (16, 16), "byteorder": ">"},
    ],
    ids=str,
)
@pytest.mark.parametrize("pixels", [RGB, DEEP], ids=["8 bits", "16 bits"])
def test_tiff_of_strips_and_of_tiles(tmp_path, options, pixels):
    expect_the_same(write(tmp_path / "a.tif", pixels, **options))


@pytest.mark.parametrize("options", [{}, {"byteorder": ">"}, {"bigtiff": True}], ids=str)
@pytest.mark.parametrize("alpha", [True, False])
def test_a_fourth_channel_is_alpha_only_where_the_file_says_so(tmp_path, options, alpha):
    pixels = np.random.default_rng(3).integers(0, 256, (37, 53, 5), np.uint8)
    extra = ["unassalpha" if alpha else "unspecified", "unspecified"]
    path = write(tmp_path / "a.tif", pixels, extrasamples=extra, **options)
    bands = [band.pixels for band in read_image_bands(path, choose_mode(path))]
    np.testing.assert_array_equal(np.concatenate(bands), pixels[..., : 3 + alpha])


def test_16_bit_png(tmp_path):
    write_image(tmp_path / "a.png", ImageData(DEEP, "rgb", 16))
    expect_the_same(tmp_path / "a.png")


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("orientation", [1, 3, 6])
def test_jpeg_upright(tmp_path, progressive, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    smooth = np.kron(RGB[:6, :8], np.ones((8, 8, 1), np.uint8))
    path = write(tmp_path / "a.jpg", smooth, exif=exif, progressive=progressive)
    header = read_header(path)
    assert (header.width, header.height) == ((48, 64) if orientation == 6 else (64, 48))
    assert header.row_by_row == (orientation == 1 and not progressive)
    expect_the_same(path)


@pytest.mark.parametrize("name", ["a.gif", "a.bmp", "float.tif"])
def test_files_that_are_decoded_as_a_whole(tmp_path, name):
    levels = GREY if name != "float.tif" else GREY.astype(np.float32) / 255
    path = write(tmp_path / name, levels)
    assert not read_header(path).row_by_row
    expect_the_same(path)


def expect_the_same(path, mode="auto"):
    whole = read_image(path, mode=mode)
    found = list(read_image_bands(path, choose_mode(path) if mode == "auto" else mode))
    assert len(found) > 1
    assert {(band.mode, band.bit_depth) for band in found} == {(whole.mode, whole.bit_depth)}
    pixels = np.concatenate([band.pixels for band in found])
    np.testing.assert_array_equal(pixels, whole.pixels)


@pytest.mark.parametrize(("pixels", "mode", "depth"), [(RGB, "rgb", 8), (DEEP, "rgb", 16)])
def test_windows_are_parts_of_the_whole(tmp_path, pixels, mode, depth):
    parts = (ImageData(pixels[top : top + 10], mode, depth) for top in range(0, 37, 10))
    write_pixel_file(tmp_path / "a.npy", 53, 37, parts)
    written = PixelFile(tmp_path / "a.npy", mode, depth)
    for left, top, right, bottom in ((0, 0, 53, 37), (7, 8, 20, 31), (52, 36, 53, 37)):
        window = written.window(left, top, right, bottom)
        np.testing.assert_array_equal(window.pixels, pixels[top:bottom, left:right])
    with pytest.raises(InputError, match=r"a\.npy: has the shape"):
        written.window(0, 0, 54, 1)


@pytest.mark.parametrize("rows", [1, 7, 37])
def test_an_overview_is_the_means_over_blocks(rows):
    pixel_data = ImageData(RGB, "rgb", 8)
    overview = Overview(53, 37, 3, 200e-6)
    for top in range(0, 37, rows):
        overview.add(pixel_data.values()[top : top + rows])
    assert overview.block_px == 4
    found = overview.values()
    assert found.shape == (10, 14, 3)
    even = ImageData(RGB[:36, :52], "rgb", 8)
    expected = resize_image(even, [13, 9], "box").values()
    np.testing.assert_allclose(found[:9, :13], expected, atol=0.5 / 255 + 1e-6)
    np.testing.assert_allclose(found[9, 13], pixel_data.values()[36:, 52:].mean((0, 1)), atol=1e-6)
