"""Every row of the table in docs/images.md, tested with a file made here."""

import re
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import icc_profiles as icc
import numpy as np
import pytest
import tifffile
from PIL import Image, features
from test_images_reading import chunk, png_bytes

from neuralfield.images import read_image
from neuralfield.system.errors import InputError

RNG = np.random.default_rng(8)
RGB = RNG.integers(0, 256, (16, 24, 3), np.uint8)
RGBA = np.dstack([RGB, RGB[..., 0]])
GREY = RGB[..., 1]
DEEP = RNG.integers(0, 65536, (16, 24, 4)).astype(np.uint16)
BITS = GREY > 127
SMOOTH = np.kron(RGB[:4, :6], np.ones((16, 16, 1), np.uint8))
RULE = "CMYK without a usable colour profile"
LINEAR = "linear light"

Row = tuple[Callable[[Path], object], str, int, str]
"""The writer of a file, the mode and bits as which it is read, and a part of the report."""


def saves(pixels: np.ndarray, mode: str | None = None, **options) -> Callable[[Path], object]:
    """Return a function that saves pixels with Pillow, converted to `mode` if it is given."""
    image = Image.fromarray(pixels)
    image = image if mode is None else image.convert(mode)
    return lambda path: image.save(path, **options)


def tiff(pixels: np.ndarray) -> Callable[[Path], object]:
    photometric = "rgb" if pixels.ndim == 3 else "minisblack"
    return lambda path: tifffile.imwrite(path, pixels, photometric=photometric)


def deep_png(levels: np.ndarray, colour_type: int) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(png_bytes(levels, colour_type))


def transparent_colour(path: Path) -> None:
    key = RGB[3, 3].astype(">u2").tobytes()
    path.write_bytes(png_bytes(RGB, 2, extra=chunk(b"tRNS", key)))


def few_bits(path: Path) -> None:
    header = struct.pack(">IIBBBBB", 8, 1, 4, 0, 0, 0, 0)
    data = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0\x01\x23\x45\x67"))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + data + chunk(b"IEND", b""))


def with_frames(**options) -> Callable[[Path], object]:
    frames = [Image.fromarray(np.full((8, 9, 3), 80 * n, np.uint8)) for n in (1, 2, 3)]
    return lambda path: frames[0].save(path, save_all=True, append_images=frames[1:], **options)


ink = Image.frombytes("CMYK", (16, 16), RNG.bytes(1024))
EXIF = Image.Exif()
EXIF[0x0112] = 6

ROWS: dict[str, Row] = {
    "PNG, 1 bit": (saves(BITS), "bilevel", 1, ""),
    "PNG, grey of 2 or 4 bits": (few_bits, "grey", 8, ""),
    "PNG, grey of 8 bits": (saves(GREY), "grey", 8, ""),
    "PNG, grey of 16 bits": (deep_png(DEEP[..., :1], 0), "grey", 16, ""),
    "PNG, RGB of 8 bits": (saves(RGB), "rgb", 8, ""),
    "PNG, RGB of 16 bits": (deep_png(DEEP[..., :3], 2), "rgb", 16, ""),
    "PNG, alpha of 8 bits": (saves(RGBA), "rgba", 8, ""),
    "PNG, alpha of 16 bits": (deep_png(DEEP, 6), "rgba", 16, ""),
    "PNG, palette": (saves(RGB, "P"), "rgb", 8, ""),
    "PNG, palette with transparency": (
        lambda path: Image.fromarray(RGB).quantize(16).save(path, transparency=3),
        "rgba",
        8,
        "",
    ),
    "PNG, a transparent colour": (transparent_colour, "rgba", 8, ""),
    "PNG, animated": (with_frames(), "grey", 8, "first of 3 frames"),
    "JPEG, grey": (saves(SMOOTH[..., 0]), "grey", 8, ""),
    "JPEG, colour": (saves(SMOOTH), "rgb", 8, ""),
    "JPEG, CMYK": (lambda path: ink.save(path), "rgb", 8, RULE),
    "JPEG, several images (MPO)": (with_frames(format="MPO"), "grey", 8, "first of 3 frames"),
    "JPEG, turned by EXIF": (saves(SMOOTH, exif=EXIF), "rgb", 8, ""),
    "TIFF, 1 bit": (saves(BITS), "bilevel", 1, ""),
    "TIFF, grey of 8 or 16 bits": (tiff(DEEP[..., 0]), "grey", 16, ""),
    "TIFF, RGB of 8 bits": (tiff(RGB), "rgb", 8, ""),
    "TIFF, RGB of 16 bits": (tiff(DEEP[..., :3]), "rgb", 16, ""),
    "TIFF, grey as floats": (tiff(DEEP[..., 0] / np.float32(65535)), "grey", 16, LINEAR),
    "TIFF, RGB as floats": (tiff(DEEP[..., :3] / np.float32(65535)), "rgb", 16, LINEAR),
    "TIFF, CMYK": (lambda path: ink.save(path), "rgb", 8, RULE),
    "TIFF, Lab": (lambda path: lab().save(path), "rgb", 8, ""),
    "TIFF, several pages": (with_frames(), "grey", 8, "first of 3 pages"),
    "WebP": (saves(RGB, lossless=True), "rgb", 8, ""),
    "WebP, alpha": (saves(RGBA, lossless=True), "rgba", 8, ""),
    "WebP, animated": (with_frames(lossless=True), "grey", 8, "first of 3 frames"),
    "AVIF": (saves(SMOOTH), "rgb", 8, ""),
    "GIF": (saves(RGB, "P"), "rgb", 8, ""),
    "GIF, animated": (with_frames(), "grey", 8, "first of 3 frames"),
    "BMP": (saves(RGB), "rgb", 8, ""),
    "PPM, 8 bits": (saves(RGB), "rgb", 8, ""),
    "PGM, 16 bits": (
        lambda path: path.write_bytes(b"P5 24 16 65535\n" + DEEP[..., 0].astype(">u2").tobytes()),
        "grey",
        16,
        "",
    ),
    "any of these with a profile": (
        saves(RGB, format="PNG", icc_profile=icc.ADOBE),
        "rgb",
        8,
        "converted from Adobe RGB (1998) to sRGB",
    ),
}


def lab() -> Image.Image:
    """Return an image of one colour in Lab with 8 bits per channel."""
    return Image.merge("LAB", [Image.new("L", (9, 8), level) for level in (150, 170, 90)])


@pytest.mark.parametrize("name", ROWS)
def test_a_row_of_the_table(tmp_path, name):
    write, mode, bit_depth, reported = ROWS[name]
    suffix = name.split(",")[0].split(" ")[0].lower()
    if suffix == "avif" and not features.check("avif"):
        pytest.skip("Pillow was built without it")
    path = tmp_path / f"a.{suffix}"
    write(path)
    messages = []
    pixel_data = read_image(path, report=messages.append)
    assert (pixel_data.mode, pixel_data.bit_depth) == (mode, bit_depth)
    assert (not messages and not reported) or reported in messages[0]
    if "turned" in name:
        assert (pixel_data.height, pixel_data.width) == SMOOTH.shape[1::-1]
    if "animated" in name or "several" in name:
        assert np.abs(pixel_data.pixels.astype(int) - 80).max() <= 2


def test_the_table_names_what_is_tested():
    text = (Path(__file__).parents[3] / "docs/images.md").read_text(encoding="utf-8")
    table = text.split("## What is read")[1].split("\n## ")[0]
    assert re.findall(r"^\| ([^|]+?) +\|", table, re.MULTILINE)[1:] == list(ROWS)


def test_lab_is_the_colour_that_it_names(tmp_path):
    lab().save(tmp_path / "a.tif")
    # L* 58.8, a* 42, b* -38 for D50, by CIE 15 and IEC 61966-2-1
    colour = read_image(tmp_path / "a.tif").pixels[0, 0].astype(int)
    assert np.abs(colour - expected_srgb(150 / 2.55, 42, -38)).max() <= 3


def expected_srgb(lightness: float, a: float, b: float) -> np.ndarray:
    height = (lightness + 16) / 116
    roots = np.array([height + a / 500, height, height - b / 200])
    linear = np.linalg.solve(icc.to_xyz(icc.SRGB, icc.D65), icc.D50 * roots**3)
    return np.clip(1.055 * np.clip(linear, 0, 1) ** (1 / 2.4) - 0.055, 0, 1) * 255


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "is a HEIC photograph"),
        (b"\0\0\0\x0cJXL \r\n\x87\n", "is a JPEG XL image"),
        (b"\0\0\0\x0cjP  \r\n\x87\n", "is a JPEG 2000 image"),
        (b"v/1\x01\x02\0\0\0", "is an OpenEXR image"),
        (b"#?RADIANCE\n", "is a Radiance HDR image"),
    ],
)
def test_what_is_not_read_is_named_with_a_remedy(tmp_path, content, found):
    (tmp_path / "a").write_bytes(content + bytes(100))
    with pytest.raises(InputError, match=rf"{found}; expected an image .*; export it as "):
        read_image(tmp_path / "a")
