"""Image files of many kinds, made here, as `read_image` reads them."""

import struct
import zlib

import numpy as np
import pytest
import tifffile
from PIL import Image

from neuralfield.images import ImageData, read_image, write_image
from neuralfield.images.image import MODES
from neuralfield.images.image_file import image_size
from neuralfield.system.errors import ConfigError, InputError

RNG = np.random.default_rng(11)
RGB = RNG.integers(0, 256, (13, 17, 3), np.uint8)
RGBA = RNG.integers(0, 256, (13, 17, 4), np.uint8)
GREY = RNG.integers(0, 256, (13, 17), np.uint8)
DEEP = RNG.integers(0, 65536, (13, 17, 4)).astype(np.uint16)


def chunk(name: bytes, content: bytes) -> bytes:
    return (
        struct.pack(">I", len(content))
        + name
        + content
        + struct.pack(">I", zlib.crc32(name + content))
    )


def png_bytes(levels: np.ndarray, colour_type: int, extra: bytes = b"") -> bytes:
    """Encode a PNG without the code under test, so that errors of that code are found."""
    height, width = levels.shape[:2]
    stored = levels.astype(levels.dtype.newbyteorder(">"))
    rows = b"".join(b"\0" + row.tobytes() for row in stored)
    header = struct.pack(">IIBBBBB", width, height, 8 * levels.itemsize, colour_type, 0, 0, 0)
    content = chunk(b"IHDR", header) + extra + chunk(b"IDAT", zlib.compress(rows))
    return b"\x89PNG\r\n\x1a\n" + content + chunk(b"IEND", b"")


def saved(image: Image.Image, path, **options):
    image.save(path, **options)
    return path


def expect(pixel_data: ImageData, mode: str, bit_depth: int, levels: np.ndarray) -> None:
    assert (pixel_data.mode, pixel_data.bit_depth) == (mode, bit_depth)
    np.testing.assert_array_equal(pixel_data.pixels, levels.reshape(pixel_data.pixels.shape))


# --- formats and storage modes


@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.webp", "a.bmp"])
def test_lossless_formats_are_exact(tmp_path, name):
    path = saved(Image.fromarray(RGB), tmp_path / name, lossless=True)
    expect(read_image(path), "rgb", 8, RGB)


def test_jpeg_is_what_pillow_decodes(tmp_path):
    path = saved(Image.fromarray(RGB), tmp_path / "a.jpg", quality=95)
    expect(read_image(path), "rgb", 8, np.asarray(Image.open(path)))
    path = saved(Image.fromarray(RGB).convert("CMYK"), tmp_path / "cmyk.jpg", quality=95)
    expect(read_image(path), "rgb", 8, np.asarray(Image.open(path).convert("RGB")))


def test_grey_and_grey_with_alpha(tmp_path):
    expect(read_image(saved(Image.fromarray(GREY), tmp_path / "a.png")), "grey", 8, GREY)
    path = saved(Image.fromarray(RGBA).convert("LA"), tmp_path / "b.png")
    pixel_data = read_image(path)
    expect(pixel_data, "rgba", 8, np.asarray(Image.open(path).convert("RGBA")))


def test_palette_with_and_without_transparency(tmp_path):
    indices = (np.arange(13 * 17) % 3).astype(np.uint8).reshape(13, 17)
    image = Image.fromarray(indices, "P")
    palette = np.array([[10, 20, 30], [200, 0, 0], [0, 0, 250]], np.uint8)
    image.putpalette(palette.tobytes())
    expect(read_image(saved(image, tmp_path / "a.png")), "rgb", 8, palette[indices])
    pixel_data = read_image(saved(image, tmp_path / "b.png", transparency=1))
    assert pixel_data.mode == "rgba"
    np.testing.assert_array_equal(pixel_data.pixels[..., 3], np.where(indices == 1, 0, 255))
    expect(read_image(saved(image, tmp_path / "a.gif")), "rgb", 8, palette[indices])


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_shallow_grey_reaches_from_black_to_white(tmp_path, bits):
    levels = np.arange(8) % 2**bits
    row = int("".join(f"{level:0{bits}b}" for level in levels), 2).to_bytes(bits, "big")
    header = struct.pack(">IIBBBBB", 8, 1, bits, 0, 0, 0, 0)
    data = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" + row))
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + data + chunk(b"IEND", b""))
    pixel_data = read_image(tmp_path / "a.png", mode="grey")
    expect(pixel_data, "grey", 8, levels * 255 // (2**bits - 1))


def test_first_frame_of_an_animation(tmp_path):
    frames = [Image.new("RGB", (4, 3), colour) for colour in ("red", "green", "blue")]
    for name in ("a.gif", "a.webp", "a.png", "a.tif"):
        saved(frames[0], tmp_path / name, save_all=True, append_images=frames[1:], lossless=True)
        assert read_image(tmp_path / name).pixels[0, 0].tolist() == [255, 0, 0]


def test_a_profile_of_srgb_changes_nothing(tmp_path):
    from PIL import ImageCms

    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    path = saved(Image.fromarray(RGB), tmp_path / "a.png", icc_profile=profile)
    expect(read_image(path), "rgb", 8, RGB)


# --- mode auto, and the modes asked for


@pytest.mark.parametrize("storage", ["1", "L", "RGB", "P", "RGBA"])
def test_a_drawing_is_bilevel_however_it_is_stored(tmp_path, storage):
    drawing = GREY > 127
    image = Image.fromarray(np.where(drawing, 255, 0).astype(np.uint8)).convert(storage)
    expect(read_image(saved(image, tmp_path / "a.png")), "bilevel", 1, drawing)


def test_deep_drawing_is_bilevel_too(tmp_path):
    drawing = DEEP[..., :1] > 40000
    levels = np.where(drawing, 65535, 0).astype(np.uint16)
    (tmp_path / "a.png").write_bytes(png_bytes(levels, 0))
    expect(read_image(tmp_path / "a.png"), "bilevel", 1, drawing)


def test_two_greys_are_not_bilevel(tmp_path):
    levels = np.where(GREY > 127, 254, 0).astype(np.uint8)
    expect(read_image(saved(Image.fromarray(levels), tmp_path / "a.png")), "grey", 8, levels)


def test_equal_channels_are_grey_and_opaque_alpha_is_left_out(tmp_path):
    grey = Image.fromarray(GREY)
    expect(read_image(saved(grey.convert("RGBA"), tmp_path / "a.png")), "grey", 8, GREY)
    opaque = Image.fromarray(RGB).convert("RGBA")
    expect(read_image(saved(opaque, tmp_path / "b.png")), "rgb", 8, RGB)
    expect(read_image(saved(Image.fromarray(RGBA), tmp_path / "c.png")), "rgba", 8, RGBA)


@pytest.mark.parametrize("bit_depth", [8, 16])
@pytest.mark.parametrize("mode", ["rgb", "rgba"])
def test_a_mode_asked_for_keeps_channels_that_say_nothing(tmp_path, mode, bit_depth):
    levels = DEEP[..., :1] if bit_depth == 16 else GREY[..., None]
    pixel_data = ImageData(levels, "grey", bit_depth).converted(mode)
    write_image(tmp_path / "a.png", pixel_data)
    assert read_image(tmp_path / "a.png").mode == "grey"
    expect(read_image(tmp_path / "a.png", mode=mode), mode, bit_depth, pixel_data.pixels)


def test_no_limit(tmp_path):
    path = saved(Image.fromarray(RGB), tmp_path / "a.png")
    expect(read_image(path, max_megapixels=float("inf")), "rgb", 8, RGB)


@pytest.mark.parametrize("mode", ["bilevel", "grey", "rgb", "rgba"])
@pytest.mark.parametrize("source", [GREY, RGB, RGBA])
def test_modes_asked_for(tmp_path, mode, source):
    path = saved(Image.fromarray(source), tmp_path / "a.png")
    pixel_data = read_image(path, mode=mode, threshold=0.4)
    expected = read_image(path).converted(mode, 0.4)
    expect(pixel_data, mode, expected.bit_depth, expected.pixels)


def test_threshold_splits_levels(tmp_path):
    levels = np.arange(256, dtype=np.uint8).reshape(1, 256)
    path = saved(Image.fromarray(levels), tmp_path / "a.png")
    assert read_image(path, mode="bilevel").pixels.sum() == 128
    assert read_image(path, mode="bilevel", threshold=0.2).pixels.sum() == 256 - 51


def test_unknown_mode(tmp_path):
    with pytest.raises(ConfigError, match="auto, bilevel"):
        read_image(tmp_path / "a.png", mode="sepia")


# --- 16 bits


@pytest.mark.parametrize("colour_type", [0, 2, 4, 6])
def test_png_of_16_bits_is_exact(tmp_path, colour_type):
    channels = {0: [0], 2: [0, 1, 2], 4: [0, 3], 6: [0, 1, 2, 3]}[colour_type]
    levels = DEEP[..., channels]
    (tmp_path / "a.png").write_bytes(png_bytes(levels, colour_type))
    pixel_data = read_image(tmp_path / "a.png")
    shown = levels[..., [0, 0, 0, 1]] if colour_type == 4 else levels
    expect(pixel_data, {0: "grey", 2: "rgb"}.get(colour_type, "rgba"), 16, shown)


def test_transparent_colour_of_16_bits(tmp_path):
    key = DEEP[1, 1, :3].astype(">u2").tobytes()
    content = png_bytes(DEEP[..., :3], 2, extra=chunk(b"tRNS", key))
    (tmp_path / "a.png").write_bytes(content)
    pixel_data = read_image(tmp_path / "a.png")
    assert pixel_data.mode == "rgba"
    assert np.argwhere(pixel_data.pixels[..., 3] == 0).tolist() == [[1, 1]]


@pytest.mark.parametrize("byteorder", ["<", ">"])
@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("options", [{}, {"compression": "deflate"}, {"rowsperstrip": 5}])
def test_tiff_of_16_bits_is_exact(tmp_path, byteorder, channels, options):
    levels = DEEP[..., :channels] if channels > 1 else DEEP[..., 0]
    if channels == 4:
        options = options | {"extrasamples": ["unassalpha"]}
    photometric = "rgb" if channels > 1 else "minisblack"
    tifffile.imwrite(
        tmp_path / "a.tif", levels, byteorder=byteorder, photometric=photometric, **options
    )
    mode = MODES[channels]
    expect(read_image(tmp_path / "a.tif"), mode, 16, levels)


def test_differences_in_a_tiff_of_16_bits(tmp_path):
    levels = DEEP[..., :3]
    tifffile.imwrite(
        tmp_path / "a.tif", levels, photometric="rgb", compression="deflate", predictor=True
    )
    expect(read_image(tmp_path / "a.tif"), "rgb", 16, levels)


def test_tiff_where_0_is_white(tmp_path):
    for levels, white in ((GREY, 255), (DEEP[..., 0], 65535)):
        tifffile.imwrite(tmp_path / "a.tif", levels, photometric="miniswhite")
        expect(read_image(tmp_path / "a.tif"), "grey", 8 * levels.itemsize, white - levels)


@pytest.mark.parametrize("dtype", ["<i2", ">i2", "<i4", ">i4"])
def test_wide_grey_within_16_bits(tmp_path, dtype):
    levels = DEEP[..., 0] // 2
    tifffile.imwrite(tmp_path / "a.tif", levels.astype(dtype), byteorder=dtype[0])
    assert Image.open(tmp_path / "a.tif").mode == "I"
    expect(read_image(tmp_path / "a.tif"), "grey", 16, levels)


def test_netpbm_of_16_bits(tmp_path):
    content = b"P5 17 13 65535\n" + DEEP[..., 0].astype(">u2").tobytes()
    (tmp_path / "a.pgm").write_bytes(content)
    expect(read_image(tmp_path / "a.pgm"), "grey", 16, DEEP[..., 0])


def test_tiles_and_planes_of_16_bits(tmp_path):
    levels, planes = DEEP[..., :3], DEEP[..., :3].transpose(2, 0, 1)
    tifffile.imwrite(tmp_path / "tiles.tif", levels, photometric="rgb", tile=(16, 16))
    tifffile.imwrite(tmp_path / "planes.tif", planes, photometric="rgb", planarconfig="separate")
    for name in ("tiles.tif", "planes.tif"):
        expect(read_image(tmp_path / name), "rgb", 16, levels)


def test_colour_is_divided_by_the_alpha_that_was_multiplied_into_it(tmp_path):
    for levels, white in ((RGBA, 255), (DEEP, 65535)):
        alpha = np.maximum(levels[..., 3:], white // 2)
        colour = (levels[..., :3] / white * alpha).round().astype(levels.dtype)
        stored = np.concatenate([colour, alpha], axis=-1)
        tifffile.imwrite(tmp_path / "a.tif", stored, photometric="rgb", extrasamples=["assocalpha"])
        pixels = read_image(tmp_path / "a.tif").pixels
        np.testing.assert_array_equal(pixels[..., 3:], alpha)
        np.testing.assert_allclose(pixels[..., :3], levels[..., :3], rtol=0, atol=2)


@pytest.mark.parametrize(
    ("levels", "found"),
    [
        (np.array([[0, 70000]], np.int32), "levels from 0 to 70000"),
        (np.array([[-1, 5]], np.int16), "levels from -1 to 5"),
    ],
)
def test_levels_that_are_not_of_8_or_16_bits(tmp_path, levels, found):
    tifffile.imwrite(tmp_path / "a.tif", levels)
    with pytest.raises(InputError, match=found):
        read_image(tmp_path / "a.tif")


# --- EXIF rotation


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.webp"])
def test_images_come_upright(tmp_path, orientation, name):
    from PIL import ImageOps

    exif = Image.Exif()
    exif[0x0112] = orientation
    saved(Image.fromarray(RGB), tmp_path / name, exif=exif, lossless=True)
    with Image.open(tmp_path / name) as image:
        expected = np.asarray(ImageOps.exif_transpose(image))
    assert expected.shape[:2] == ((13, 17) if orientation < 5 else (17, 13))
    expect(read_image(tmp_path / name), "rgb", 8, expected)
    assert image_size(tmp_path / name) == expected.shape[1::-1]
    upper = read_image(deep_reference(tmp_path, orientation, name)).pixels >> 8
    np.testing.assert_array_equal(upper, expected)


def deep_reference(folder, orientation: int, name: str):
    """Save the same image with 16 bits, as PNG or TIFF, and return its path."""
    levels = RGB.astype(np.uint16) * 257
    if name == "a.tif":
        tags = [(274, "H", 1, orientation, True)]
        tifffile.imwrite(folder / "deep.tif", levels, photometric="rgb", extratags=tags)
        return folder / "deep.tif"
    exif = Image.Exif()
    exif[0x0112] = orientation
    content = png_bytes(levels, 2, extra=chunk(b"eXIf", exif.tobytes().removeprefix(b"Exif\0\0")))
    (folder / "deep.png").write_bytes(content)
    return folder / "deep.png"


def test_senseless_orientation_is_ignored(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 77
    saved(Image.fromarray(RGB), tmp_path / "a.png", exif=exif)
    expect(read_image(tmp_path / "a.png"), "rgb", 8, RGB)
