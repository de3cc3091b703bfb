"""Files that `read_image` refuses, and the reasons that it gives."""

import io
import struct
import warnings
import zlib

import numpy as np
import pytest
import tifffile
from PIL import Image

from neuralfield.images import ImageData, read_image, write_image
from neuralfield.images.image_file import image_size
from neuralfield.system.errors import InputError
from neuralfield.system.input_files import open_input

RNG = np.random.default_rng(11)
PHOTO = RNG.integers(0, 256, (78, 85, 3), np.uint8)
DEEP_PHOTO = RNG.integers(0, 65536, (78, 85, 4)).astype(np.uint16)


def png_bytes(width: int, height: int, bits: int, data: bytes) -> bytes:
    """Encode an RGB PNG that claims any size and contains any data."""
    header = struct.pack(">IIBBBBB", width, height, bits, 2, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(data)), (b"IEND", b"")]
    chunks = [
        struct.pack(">I", len(content))
        + name
        + content
        + struct.pack(">I", zlib.crc32(name + content))
        for name, content in parts
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def encoded(image: Image.Image, format: str, **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def test_missing_folder_empty_and_unreadable(tmp_path):
    (tmp_path / "empty.png").touch()
    for name, found in [
        ("none.png", "there is no such file"),
        ("", "is a folder"),
        ("empty.png", "is empty"),
        ("empty.png/a.png", "cannot be opened"),
    ]:
        with pytest.raises(InputError, match=found) as caught:
            read_image(tmp_path / name)
        assert str(caught.value).startswith(str(tmp_path / name))


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"hello, I am not a picture", "not an image"),
        (b'<?xml version="1.0"?>\n<!-- a cat -->\n<svg xmlns="x"></svg>', "SVG"),
        (b"  <svg></svg>", "SVG"),
        (b"%PDF-1.7 ...", "PDF"),
        (b"<!DOCTYPE html><html><body><svg/>", "web page"),
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "HEIC"),
        (b"\0\0\0\x18ftypisom\0\0\0\0", "video"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 5 5\n%%EndComments\n", "drawing"),
        (b"\x89PNG\r\n\x1a\n", "damaged"),
        (b"\xff\xd8\xff\xe0", "damaged"),
        (b"II*\0\x08\0\0\0\0\0", "a TIFF that is damaged"),
    ],
)
def test_what_is_not_an_image_is_named(tmp_path, content, found):
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(InputError, match=found):
        read_image(tmp_path / "a.png")


@pytest.mark.parametrize("size", [(0, 5), (5, 0)])
@pytest.mark.parametrize("bits", [8, 16])
def test_no_pixels_at_all(tmp_path, size, bits):
    (tmp_path / "a.png").write_bytes(png_bytes(size[0], size[1], bits, b""))
    with pytest.raises(InputError, match="side of 0 pixels"):
        read_image(tmp_path / "a.png")


def whole_files() -> dict[str, bytes]:
    """Return files of which every part is needed, so that any cut must be noticed."""
    photo = Image.fromarray(PHOTO)
    deep_rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in DEEP_PHOTO[..., :3])
    files = {
        "png": encoded(photo, "PNG"),
        "deep.png": png_bytes(85, 78, 16, deep_rows),
        "jpg": encoded(photo, "JPEG"),
        "progressive.jpg": encoded(photo, "JPEG", progressive=True),
        "webp": encoded(photo, "WEBP"),
        "lossless.webp": encoded(photo, "WEBP", lossless=True),
        "gif": encoded(photo, "GIF"),
        "bmp": encoded(photo, "BMP"),
        "tif": encoded(photo, "TIFF"),
        "deflate.tif": encoded(photo, "TIFF", compression="tiff_deflate"),
    }
    for name, options in {
        "deep.tif": {},
        "strips.deep.tif": {"rowsperstrip": 7},
        "deflate.deep.tif": {"compression": "deflate"},
    }.items():
        buffer = io.BytesIO()
        tifffile.imwrite(buffer, DEEP_PHOTO[..., :3], photometric="rgb", **options)
        files[name] = buffer.getvalue()
    return files


@pytest.mark.parametrize("name", list(whole_files()))
def test_an_image_cut_off_anywhere_is_never_half_read(tmp_path, name):
    content, path = whole_files()[name], tmp_path / name
    path.write_bytes(content)
    whole = read_image(path).pixels
    for length in np.linspace(1, len(content) - 1, 23).astype(int):
        path.write_bytes(content[:length])
        try:
            pixels = read_image(path).pixels
        except InputError:
            continue
        np.testing.assert_array_equal(pixels, whole)  # only the end marker of a file may be missing
        assert len(content) - length < 32


@pytest.mark.parametrize("bits", [8, 16])
def test_bombs_are_refused_before_they_are_decoded(tmp_path, bits):
    (tmp_path / "a.png").write_bytes(png_bytes(50_000, 50_000, bits, b"\0" * 1000))
    with pytest.raises(InputError, match=r"2,500,000,000 pixels; expected at most 100 million"):
        read_image(tmp_path / "a.png")


@pytest.mark.parametrize("side", [110, 1000])
def test_the_limit_is_ours_alone(tmp_path, side, capfd):
    path = tmp_path / "a.png"
    write_image(path, ImageData(np.zeros((side, side, 1), np.uint8), "bilevel", 1))
    pillow_limit = Image.MAX_IMAGE_PIXELS
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(
            InputError, match=rf"{side**2:,} pixels.*in tiles.*raise max_megapixels"
        ):
            read_image(path, max_megapixels=0.01)
        Image.MAX_IMAGE_PIXELS = 100  # simulates an image beyond Pillow's own limit
        try:
            assert read_image(path).width == side
        finally:
            Image.MAX_IMAGE_PIXELS = pillow_limit
    assert capfd.readouterr() == ("", "")


def test_rare_formats_are_not_even_tried(tmp_path):
    """Their decoders would be an additional risk, and two of them may contain another image."""
    for format in ("ICO", "JPEG2000", "TGA", "PCX", "SGI"):
        (tmp_path / "a").write_bytes(encoded(Image.fromarray(PHOTO), format))
        with pytest.raises(InputError, match=r"not an image that can be read|JPEG 2000"):
            read_image(tmp_path / "a")


def test_a_jpeg_that_would_be_decoded_for_hours(tmp_path):
    content = encoded(Image.fromarray(PHOTO), "JPEG", progressive=True)
    scan = content.rindex(b"\xff\xda")
    (tmp_path / "a.jpg").write_bytes(content[:scan] + content[scan:-2] * 200 + content[-2:])
    with pytest.raises(InputError, match="scans in a JPEG"):
        read_image(tmp_path / "a.jpg")


def test_a_size_is_read_without_decoding(tmp_path):
    (tmp_path / "a.png").write_bytes(png_bytes(50_000, 40_000, 8, b""))
    assert image_size(tmp_path / "a.png") == (50_000, 40_000)
    (tmp_path / "a.png").write_bytes(b"nothing")
    with pytest.raises(InputError, match="not an image"):
        image_size(tmp_path / "a.png")


def test_no_more_is_read_than_there_is(tmp_path):
    """A part of a file may claim a size of gigabytes."""
    content = encoded(Image.fromarray(PHOTO), "PNG")
    chunk = struct.pack(">I", 0x7FFFFFF0) + b"tEXt"
    (tmp_path / "a.png").write_bytes(content[:33] + chunk + content[33:])
    with open_input(tmp_path / "a.png", "") as file:
        file.seek(40)
        assert len(file.read(1 << 60)) == len(content) + 8 - 40
    with pytest.raises(InputError, match="damaged"):
        read_image(tmp_path / "a.png")
