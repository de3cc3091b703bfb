"""Image files of many kinds, made here, as `read_image` reads them."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import icc_profiles as icc
import numpy as np
import pytest
import tifffile
from PIL import Image, ImageOps, features
from png_files import chunk, png_bytes

from neuralfield.images import ImageData, read_image, write_image
from neuralfield.images.image_file import image_size

RNG = np.random.default_rng(8)
RGB = RNG.integers(0, 256, (16, 24, 3), np.uint8)
RGBA = np.dstack([RGB, RGB[..., 0]])
GREY = RGB[..., 1]
DEEP = RNG.integers(0, 65536, (16, 24, 4)).astype(np.uint16)
BITS = GREY > 127
INDICES = GREY % 3
PALETTE = np.array([[10, 20, 30], [200, 0, 0], [0, 0, 250]], np.uint8)
SMOOTH = np.kron(RGB[:4, :6], np.ones((16, 16, 1), np.uint8))
FIRST = np.full((8, 9), 80, np.uint8)
INK = Image.frombytes("CMYK", (16, 16), RNG.bytes(1024))
RULE = "CMYK without a usable colour profile"
EXIF = Image.Exif()
EXIF[0x0112] = 6

TOLERANCES = {"jpeg": 3, "avif": 3}
"""The largest difference of levels of formats with loss."""

Row = tuple[Callable[[Path], object], str, int, np.ndarray, str]
"""The writer of a file, the mode and bits as which it is read, its levels, and a report."""


def saves(pixels: np.ndarray, mode: str | None = None, **options: Any) -> Callable[[Path], object]:
    """Return a function that saves pixels with Pillow, converted to `mode` if it is given."""
    image = Image.fromarray(pixels)
    image = image if mode is None else image.convert(mode)
    return lambda path: image.save(path, **options)


def tiff(pixels: Any, **options: Any) -> Callable[[Path], object]:
    options = {"photometric": "rgb" if pixels.ndim == 3 else "minisblack"} | options
    return lambda path: tifffile.imwrite(path, pixels, **options)


def png(levels: np.ndarray, kind: int, *rest: Any, **options: Any) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(png_bytes(levels, kind, *rest, **options))


def with_palette(**options: Any) -> Callable[[Path], object]:
    image = Image.fromarray(INDICES, "P")
    image.putpalette(PALETTE.tobytes())
    return lambda path: image.save(path, **options)


def with_frames(**options: Any) -> Callable[[Path], object]:
    frames = [Image.fromarray(np.full((8, 9, 3), 80 * n, np.uint8)) for n in (1, 2, 3)]
    return lambda path: frames[0].save(path, save_all=True, append_images=frames[1:], **options)


def with_key(levels: np.ndarray, key: np.ndarray) -> np.ndarray:
    alpha = np.where((levels == key).all(axis=2), 0, np.iinfo(levels.dtype).max)
    return np.dstack([levels, alpha.astype(levels.dtype)])


def transparent_colour(levels: np.ndarray) -> Callable[[Path], object]:
    return png(levels, 2, chunk(b"tRNS", levels[3, 3].astype(">u2").tobytes()))


# the files of the table in docs/images.md, in its order
KEYED = with_key(DEEP[..., :3], DEEP[3, 3, :3])
FOUR_BITS, TWO_BITS = np.array([[0x01, 0x23, 0x45, 0x67]], np.uint8), np.array([[0x1B]], np.uint8)
LIGHT = DEEP[..., :3] > 30000
PROFILED = np.rint(255 * icc.encode_srgb((GREY / 255) ** 1.8))
INKS = np.asarray(INK) / 255
SHOWN_INK = np.rint(255 * (1 - INKS[..., :3]) * (1 - INKS[..., 3:]))
PLAIN_PPM = b"P3 24 16 255\n" + b" ".join(b"%d" % level for level in RGB.ravel())
DEEP_PGM = b"P5 24 16 65535\n" + DEEP[..., 0].astype(">u2").tobytes()
ROWS: dict[str, list[Row]] = {
    "PNG, 1 bit": [(saves(BITS), "bilevel", 1, BITS, "")],
    "PNG, grey of 2 or 4 bits": [
        (png(FOUR_BITS, 0, size=(8, 1), bits=4), "grey", 8, 17 * np.arange(8), ""),
        (
            png(TWO_BITS, 0, size=(4, 1), bits=2),
            "grey",
            8,
            85 * np.arange(4),
            "",
        ),
    ],
    "PNG, grey of 8 bits": [(saves(GREY), "grey", 8, GREY, "")],
    "PNG, grey of 16 bits": [(png(DEEP[..., :1], 0), "grey", 16, DEEP[..., 0], "")],
    "PNG, RGB of 8 bits": [(saves(RGB), "rgb", 8, RGB, "")],
    "PNG, RGB of 16 bits": [(png(DEEP[..., :3], 2), "rgb", 16, DEEP[..., :3], "")],
    "PNG, alpha of 8 bits": [
        (saves(RGBA), "rgba", 8, RGBA, ""),
        (png(RGBA[..., 2:], 4), "rgba", 8, RGBA[..., [2, 2, 2, 3]], ""),
    ],
    "PNG, alpha of 16 bits": [
        (png(DEEP, 6), "rgba", 16, DEEP, ""),
        (png(DEEP[..., 2:], 4), "rgba", 16, DEEP[..., [2, 2, 2, 3]], ""),
    ],
    "PNG, palette": [(with_palette(), "rgb", 8, PALETTE[INDICES], "")],
    "PNG, palette with transparency": [
        (
            with_palette(transparency=1),
            "rgba",
            8,
            np.dstack([PALETTE[INDICES], np.where(INDICES == 1, 0, 255)]),
            "",
        )
    ],
    "PNG, a transparent colour": [
        (transparent_colour(RGB), "rgba", 8, with_key(RGB, RGB[3, 3]), ""),
        (transparent_colour(DEEP[..., :3]), "rgba", 16, KEYED, ""),
    ],
    "PNG, animated": [(with_frames(), "grey", 8, FIRST, "")],
    "JPEG, grey": [(saves(SMOOTH[..., 0], quality=100), "grey", 8, SMOOTH[..., 0], "")],
    "JPEG, colour": [(saves(SMOOTH, quality=100, subsampling=0), "rgb", 8, SMOOTH, "")],
    "JPEG, CMYK": [(lambda path: INK.save(path, quality=100), "rgb", 8, SHOWN_INK, RULE)],
    "JPEG, several images (MPO)": [(with_frames(format="MPO"), "grey", 8, FIRST, "")],
    "JPEG, turned by EXIF": [
        (
            saves(SMOOTH, exif=EXIF, quality=100, subsampling=0),
            "rgb",
            8,
            np.rot90(SMOOTH, -1),
            "",
        )
    ],
    "TIFF, 1 bit": [(saves(BITS), "bilevel", 1, BITS, "")],
    "TIFF, grey of 8 or 16 bits": [
        (tiff(GREY), "grey", 8, GREY, ""),
        (tiff(255 - GREY, photometric="miniswhite"), "grey", 8, GREY, ""),
        (tiff(DEEP[..., 0]), "grey", 16, DEEP[..., 0], ""),
    ],
    "TIFF, RGB of 8 bits": [(tiff(RGB), "rgb", 8, RGB, "")],
    "TIFF, RGB of 16 bits": [
        (tiff(DEEP[..., :3], byteorder=">"), "rgb", 16, DEEP[..., :3], ""),
        (tiff(DEEP[..., :3], tile=(16, 16), bigtiff=True), "rgb", 16, DEEP[..., :3], ""),
        (tiff(DEEP[..., :3], compression="deflate", predictor=True), "rgb", 16, DEEP[..., :3], ""),
        (tiff(DEEP, extrasamples=["unassalpha"]), "rgba", 16, DEEP, ""),
        (tiff(DEEP, extrasamples=["unspecified"]), "rgb", 16, DEEP[..., :3], ""),
    ],
    "TIFF, grey as floats": [
        (tiff(np.float32(LIGHT[..., 0])), "bilevel", 1, LIGHT[..., 0], "linear light")
    ],
    "TIFF, RGB as floats": [(tiff(np.float32(LIGHT)), "rgb", 16, 65535 * LIGHT, "linear light")],
    "TIFF, CMYK": [(lambda path: INK.save(path), "rgb", 8, SHOWN_INK, RULE)],
    "TIFF, several pages": [(with_frames(), "grey", 8, FIRST, "first of 3 pages")],
    "WebP": [(saves(RGB, lossless=True), "rgb", 8, RGB, "")],
    "WebP, alpha": [(saves(RGBA, lossless=True, exact=True), "rgba", 8, RGBA, "")],
    "WebP, animated": [(with_frames(lossless=True), "grey", 8, FIRST, "first of 3 frames")],
    "AVIF": [(saves(SMOOTH, quality=100, subsampling="4:4:4"), "rgb", 8, SMOOTH, "")],
    "GIF": [(with_palette(), "rgb", 8, PALETTE[INDICES], "")],
    "GIF, animated": [(with_frames(), "grey", 8, FIRST, "first of 3 frames")],
    "BMP": [(saves(RGB), "rgb", 8, RGB, ""), (saves(GREY), "grey", 8, GREY, "")],
    "PPM, 8 bits": [
        (saves(RGB), "rgb", 8, RGB, ""),
        (lambda path: path.write_bytes(PLAIN_PPM), "rgb", 8, RGB, ""),
        (saves(BITS), "bilevel", 1, BITS, ""),
    ],
    "PGM, 16 bits": [(lambda path: path.write_bytes(DEEP_PGM), "grey", 16, DEEP[..., 0], "")],
    "any of these with a profile": [
        (saves(GREY, format="PNG", icc_profile=icc.GAMMA_1_8), "grey", 8, PROFILED, "to sRGB")
    ],
}


@pytest.mark.parametrize("name", ROWS)
def test_a_row_of_the_table(tmp_path, name):
    suffix = name.split(",")[0].split(" ")[0].lower()
    if suffix == "avif" and not features.check("avif"):
        pytest.skip("Pillow was built without it")
    for write, mode, bit_depth, levels, reported in ROWS[name]:
        path = tmp_path / f"a.{suffix}"
        write(path)
        messages = []
        image = read_image(path, report=messages.append)
        assert (image.mode, image.bit_depth) == (mode, bit_depth)
        assert (not messages and not reported) or reported in messages[0]
        difference = np.abs(image.pixels.astype(int) - levels.reshape(image.pixels.shape))
        assert difference.max() <= TOLERANCES.get(
            suffix, 2 if "profile" in name or "CMYK" in name else 0
        )
        assert image_size(path) == (image.width, image.height)


def test_the_table_names_what_is_tested():
    text = (Path(__file__).parents[3] / "docs/images.md").read_text(encoding="utf-8")
    table = text.split("## What is read")[1].split("\n## ")[0]
    assert re.findall(r"^\| ([^|]+?) +\|", table, re.MULTILINE)[1:] == list(ROWS)


def test_colour_is_divided_by_the_alpha_that_was_multiplied_into_it(tmp_path):
    for levels, white in ((RGBA, 255), (DEEP, 65535)):
        alpha = np.maximum(levels[..., 3:], white // 2)
        colour = (levels[..., :3] / white * alpha).round().astype(levels.dtype)
        stored = np.concatenate([colour, alpha], axis=-1)
        tiff(stored, extrasamples=["assocalpha"])(tmp_path / "a.tif")
        pixels = read_image(tmp_path / "a.tif").pixels
        np.testing.assert_array_equal(pixels[..., 3:], alpha)
        np.testing.assert_allclose(pixels[..., :3], levels[..., :3], rtol=0, atol=2)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.webp"])
def test_images_come_upright(tmp_path, orientation, name):
    exif = Image.Exif()
    exif[0x0112] = orientation
    saves(RGB, exif=exif, lossless=True)(tmp_path / name)
    with Image.open(tmp_path / name) as image:
        expected = np.asarray(ImageOps.exif_transpose(image))
    assert expected.shape[:2] == ((16, 24) if orientation < 5 else (24, 16))
    np.testing.assert_array_equal(read_image(tmp_path / name).pixels, expected)
    assert image_size(tmp_path / name) == expected.shape[1::-1]


# --- mode auto, and the modes asked for


@pytest.mark.parametrize("storage", ["1", "L", "RGB", "P", "RGBA"])
def test_a_drawing_is_bilevel_however_it_is_stored(tmp_path, storage):
    saves(np.where(BITS, 255, 0).astype(np.uint8), storage)(tmp_path / "a.png")
    image = read_image(tmp_path / "a.png")
    assert (image.mode, image.bit_depth) == ("bilevel", 1)
    np.testing.assert_array_equal(image.pixels[..., 0], BITS)


def test_equal_channels_are_grey_and_opaque_alpha_is_left_out(tmp_path):
    for pixels, storage, mode in (
        (GREY, "RGBA", "grey"),
        (RGB, "RGBA", "rgb"),
        (np.where(BITS, 254, 0).astype(np.uint8), "RGB", "grey"),  # two greys are not bilevel
    ):
        saves(pixels, storage)(tmp_path / "a.png")
        image = read_image(tmp_path / "a.png")
        assert image.mode == mode
        np.testing.assert_array_equal(image.pixels, pixels.reshape(image.pixels.shape))


@pytest.mark.parametrize("bit_depth", [8, 16])
@pytest.mark.parametrize("mode", ["rgb", "rgba"])
def test_a_mode_asked_for_keeps_channels_that_say_nothing(tmp_path, mode, bit_depth):
    levels = DEEP[..., :1] if bit_depth == 16 else GREY[..., None]
    stored = ImageData(levels, "grey", bit_depth).converted(mode)
    write_image(tmp_path / "a.png", stored)
    assert read_image(tmp_path / "a.png").mode == "grey"
    image = read_image(tmp_path / "a.png", mode=mode)
    assert (image.mode, image.bit_depth) == (mode, bit_depth)
    np.testing.assert_array_equal(image.pixels, stored.pixels)


def test_threshold_splits_levels(tmp_path):
    saves(np.arange(256, dtype=np.uint8).reshape(1, 256))(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png", mode="bilevel").pixels.sum() == 128
    assert read_image(tmp_path / "a.png", mode="bilevel", threshold=0.2).pixels.sum() == 256 - 51
