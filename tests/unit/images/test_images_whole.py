"""Files with fewer pixels than they claim, with indices without a colour, and with much text."""

import contextlib
import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image
from test_images_reading import chunk

from neuralfield.images import read_image, read_image_bands
from neuralfield.system.errors import InputError

RGB = np.random.default_rng(4).integers(0, 256, (20, 30, 3), np.uint8)
INDICES = (np.arange(600).reshape(20, 30) % 200).astype(np.uint8)
TEN_COLOURS = bytes(range(30))


def encoded(format: str, mode: str = "RGB", **options) -> bytearray:
    content = io.BytesIO()
    Image.fromarray(RGB).convert(mode).save(content, format, **options)
    return bytearray(content.getvalue())


def png(height: int, bits: int, colour_type: int, rows: np.ndarray, extra: bytes = b"") -> bytes:
    header = struct.pack(">IIBBBBB", 30, height, bits, colour_type, 0, 0, 0)
    data = b"".join(b"\0" + row.tobytes() for row in rows)
    parts = [chunk(b"IHDR", header), extra, chunk(b"IDAT", zlib.compress(data))]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts) + chunk(b"IEND", b"")


def patched(content: bytearray, mark: bytes, offset: int, layout: str, value: int) -> bytes:
    struct.pack_into(layout, content, content.index(mark) + offset, value)
    return bytes(content)


def taller_tiff(content: bytearray) -> bytes:
    (start,) = struct.unpack_from("<I", content, 4)
    (count,) = struct.unpack_from("<H", content, start)
    for entry in range(start + 2, start + 2 + 12 * count, 12):
        tag, kind = struct.unpack_from("<HH", content, entry)
        if tag == 257:
            struct.pack_into("<I" if kind == 4 else "<H", content, entry + 8, 40)
    return bytes(content)


def taller() -> dict[str, bytes]:
    """Return files of 20 rows that claim to have 40 or more."""
    deep = np.repeat(RGB.astype(">u2"), 1, axis=0)
    files = {
        "png": png(40, 8, 2, RGB),
        "deep.png": png(40, 16, 2, deep),
        "grey.png": png(40, 8, 0, RGB[..., 0]),
        "jpg": patched(encoded("JPEG"), b"\xff\xc0", 5, ">H", 400),
        "progressive.jpg": patched(encoded("JPEG", progressive=True), b"\xff\xc2", 5, ">H", 400),
        "bmp": patched(encoded("BMP"), b"BM", 22, "<i", 40),
        "gif": patched(encoded("GIF", "L"), b"\x2c\0\0\0\0", 7, "<H", 40),
        "ppm": b"P6 30 40 255\n" + RGB.tobytes(),
        "plain.ppm": b"P3 30 40 255\n" + b" ".join(b"%d" % level for level in RGB.ravel()),
        "pbm": b"P4 30 400\n" + RGB.tobytes()[:80],
        "deep.pgm": b"P5 30 40 65535\n" + RGB.tobytes(),
        "tif": taller_tiff(encoded("TIFF")),
        "group4.tif": taller_tiff(encoded("TIFF", "1", compression="group4")),
    }
    for compression in ("tiff_lzw", "tiff_deflate", "packbits", "jpeg"):
        files[f"{compression}.tif"] = taller_tiff(encoded("TIFF", compression=compression))
    with contextlib.suppress(KeyError, OSError):  # Pillow was built without AVIF
        files["avif"] = patched(encoded("AVIF"), b"ispe", 12, ">I", 40)
    return files


@pytest.mark.parametrize("name", list(taller()))
def test_a_header_that_claims_more_pixels_than_there_are(tmp_path, name):
    path = tmp_path / f"a.{name}"
    path.write_bytes(taller()[name])
    with pytest.raises(InputError, match=r"cut off or damaged.*download it again"):
        read_image(path)
    if path.suffix in (".png", ".jpg", ".tif"):
        with pytest.raises(InputError, match="cut off or damaged"):
            list(read_image_bands(path, "rgb"))


@pytest.mark.parametrize("kind", ["png", "4 bits", "transparent", "bmp", "gif"])
def test_an_index_without_a_colour(tmp_path, kind):
    palette = chunk(b"PLTE", TEN_COLOURS)
    image = Image.fromarray(INDICES, "P")
    image.putpalette(bytes(range(256)) * 3)
    content = io.BytesIO()
    if kind == "bmp":
        image.save(content, "BMP")
        whole = bytearray(content.getvalue())
        struct.pack_into("<I", whole, 46, 10)
        struct.pack_into("<I", whole, 10, 54 + 40)
        stored = bytes(whole[:94] + whole[54 + 1024 :])
    elif kind == "gif":
        image.save(content, "GIF")
        whole = bytearray(content.getvalue())
        colours = 2 ** ((whole[10] & 7) + 1)
        whole[10] = (whole[10] & 0xF8) | 2
        stored = bytes(whole[: 13 + 24] + whole[13 + 3 * colours :])
    elif kind == "4 bits":
        stored = png(20, 4, 3, INDICES[:, :15], palette)
    else:
        extra = palette + (chunk(b"tRNS", b"\0\x80") if kind == "transparent" else b"")
        stored = png(20, 8, 3, INDICES, extra)
    (tmp_path / "a").write_bytes(stored)
    with pytest.raises(InputError, match=r"index \d+ of a palette of (10|8) colours"):
        read_image(tmp_path / "a")


def test_a_palette_that_is_long_enough_is_read(tmp_path):
    (tmp_path / "a.png").write_bytes(png(20, 8, 3, INDICES % 10, chunk(b"PLTE", TEN_COLOURS)))
    assert read_image(tmp_path / "a.png").mode == "rgb"


def test_text_is_read_over_or_named(tmp_path):
    for text, is_read in ((b"x" * 3_000_000, True), (b"x" * (17 << 20), False)):
        extra = chunk(b"zTXt", b"Comment\0\0" + zlib.compress(text))
        (tmp_path / "a.png").write_bytes(png(20, 8, 2, RGB, extra))
        if is_read:
            np.testing.assert_array_equal(read_image(tmp_path / "a.png").pixels, RGB)
        else:
            with pytest.raises(
                InputError, match=r"too much text.*export it as PNG without its meta"
            ):
                read_image(tmp_path / "a.png")
