"""Files that `read_image` refuses, the reasons that it gives, and small files that claim much."""

import io
import re
import struct
import zlib

import numpy as np
import pytest
import tifffile
from little_effort import little_effort
from PIL import Image
from png_files import chunk, png_bytes

from neuralfield.images import ImageData, read_header, read_image, read_image_bands, write_image
from neuralfield.images.image_file import image_size
from neuralfield.system.errors import InputError

RNG = np.random.default_rng(11)
PHOTO = RNG.integers(0, 256, (78, 85, 3), np.uint8)
DEEP_PHOTO = RNG.integers(0, 65536, (78, 85, 3)).astype(np.uint16)


def encoded(format: str, image: Image.Image | None = None, **options) -> bytes:
    buffer = io.BytesIO()
    (image or Image.fromarray(PHOTO)).save(buffer, format, **options)
    return buffer.getvalue()


def test_missing_folder_and_empty(tmp_path):
    (tmp_path / "empty.png").touch()
    for name, found in [
        ("none.png", "there is no such file"),
        ("", "is a folder"),
        ("empty.png", "is empty"),
        ("empty.png/a.png", "cannot be opened"),
    ]:
        for read in (read_image, read_header):
            with pytest.raises(InputError, match=found) as caught:
                read(tmp_path / name)
            assert str(caught.value).startswith(str(tmp_path / name))


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"hello, I am not a picture", "not an image"),
        (b'<?xml version="1.0"?>\n<!-- a cat -->\n<svg xmlns="x"></svg>', "SVG"),
        (b"%PDF-1.7 ...", "PDF"),
        (b"<!DOCTYPE html><html><body><svg/>", "web page"),
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "HEIC"),
        (b"\0\0\0\x18ftypisom\0\0\0\0", "video"),
        (b"\0\0\0\x0cJXL \r\n\x87\n", "JPEG XL"),
        (b"v/1\x01\x02\0\0\0", "OpenEXR"),
        (b"\x89PNG\r\n\x1a\n", "damaged"),
        (b"\xff\xd8\xff\xe0", "damaged"),
        (b"II*\0\x08\0\0\0\0\0", "damaged"),
        (b"BM is short for Benchmark", "damaged"),
        (png_bytes(PHOTO, 2, size=(0, 5)), "damaged"),
    ],
)
def test_what_is_not_an_image_is_named(tmp_path, content, found):
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(InputError, match=found) as caught:
        read_image(tmp_path / "a.png")
    assert "\n" not in str(caught.value)


def test_rare_formats_are_not_even_tried(tmp_path):
    """Their decoders would be an additional risk, and two of them may contain another image."""
    for format in ("ICO", "JPEG2000", "TGA", "PCX", "SGI"):
        (tmp_path / "a").write_bytes(encoded(format))
        with pytest.raises(InputError, match=r"not an image that can be read|JPEG 2000"):
            read_image(tmp_path / "a")


@pytest.mark.parametrize("levels", [np.int16(-5), np.int32(7), np.uint32(7)], ids=repr)
def test_a_tiff_of_other_numbers_is_refused(tmp_path, levels):
    tifffile.imwrite(tmp_path / "a.tif", np.full((4, 5), levels))
    with pytest.raises(InputError, match="grey, RGB or CMYK of 8 or 16 bits a channel"):
        read_image(tmp_path / "a.tif")


def deep_tiff(**options) -> bytes:
    buffer = io.BytesIO()
    tifffile.imwrite(buffer, DEEP_PHOTO, photometric="rgb", **options)
    return buffer.getvalue()


WHOLE_FILES = {
    "png": encoded("PNG"),
    "deep.png": png_bytes(DEEP_PHOTO, 2),
    "jpg": encoded("JPEG"),
    "progressive.jpg": encoded("JPEG", progressive=True),
    "webp": encoded("WEBP"),
    "lossless.webp": encoded("WEBP", lossless=True),
    "gif": encoded("GIF"),
    "bmp": encoded("BMP"),
    "ppm": encoded("PPM"),
    "tif": encoded("TIFF"),
    "deflate.tif": encoded("TIFF", compression="tiff_deflate"),
    "strips.deep.tif": deep_tiff(rowsperstrip=7),
}
"""Files of which every part is needed, so that any cut must be noticed."""


@pytest.mark.parametrize("name", WHOLE_FILES)
def test_an_image_cut_off_anywhere_is_never_half_read(tmp_path, name):
    content, path = WHOLE_FILES[name], tmp_path / name
    path.write_bytes(content)
    whole = read_image(path).pixels
    for length in np.linspace(1, len(content) - 1, 23).astype(int):
        path.write_bytes(content[:length])
        for read in (read_image, lambda path: list(read_image_bands(path, "rgb"))):
            try:
                found = read(path)
            except InputError as error:
                assert "\n" not in str(error)
                continue
            pixels = found.pixels if isinstance(found, ImageData) else found[0].pixels
            np.testing.assert_array_equal(pixels, whole)  # only the end marker may be missing
            assert len(content) - length < 32


def taller_tiff(**options) -> bytes:
    """Encode a TIFF that claims 40 more rows."""
    content = bytearray(encoded("TIFF", **options))
    (start,) = struct.unpack_from("<I", content, 4)
    (count,) = struct.unpack_from("<H", content, start)
    for entry in range(start + 2, start + 2 + 12 * count, 12):
        tag, kind = struct.unpack_from("<HH", content, entry)
        if tag == 257:
            struct.pack_into("<I" if kind == 4 else "<H", content, entry + 8, 118)
    return bytes(content)


@pytest.mark.parametrize(
    "content",
    [
        png_bytes(PHOTO, 2, size=(85, 118)),
        png_bytes(DEEP_PHOTO, 2, size=(85, 118)),
        b"P6 85 118 255\n" + PHOTO.tobytes(),
        b"P4 85 9000\n" + PHOTO.tobytes(),
        encoded("BMP")[:22] + struct.pack("<i", 118) + encoded("BMP")[26:],
        taller_tiff(),
        *(taller_tiff(compression=name) for name in ("tiff_lzw", "packbits", "jpeg")),
    ],
    ids=["png", "deep png", "ppm", "pbm", "bmp", "tif", "lzw", "packbits", "jpeg in tif"],
)
def test_a_header_that_claims_more_pixels_than_there_are(tmp_path, content):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(InputError, match=r"cut off or damaged.*download it again"):
        read_image(tmp_path / "a")


@pytest.mark.parametrize("name", ["png", "bmp"])
def test_the_limit_is_checked_before_decoding(tmp_path, name):
    (tmp_path / "a").write_bytes(WHOLE_FILES[name])
    with pytest.raises(InputError, match=r"6,630 pixels.*in tiles.*raise max_megapixels"):
        read_image(tmp_path / "a", max_megapixels=0.006)
    (tmp_path / "a").write_bytes(png_bytes(PHOTO, 2, size=(50_000, 40_000)))
    assert image_size(tmp_path / "a") == (50_000, 40_000)
    with pytest.raises(InputError, match=r"2,000,000,000 pixels; expected at most 100 million"):
        read_image(tmp_path / "a")
    write_image(tmp_path / "a", ImageData(PHOTO, "rgb", 8))
    assert read_image(tmp_path / "a", max_megapixels=float("inf")).width == 85


# --- small files that would take minutes or gigabytes


@pytest.mark.parametrize("size", [(1, 100_000_000), (8, 12_000_000), (12_000_000, 8)])
def test_sides_are_limited(tmp_path, size):
    (tmp_path / "a.png").write_bytes(png_bytes(np.zeros((1, 1), np.uint8), 0, size=size))
    for read in (read_header, read_image, lambda path: list(read_image_bands(path, "grey"))):
        with little_effort(), pytest.raises(InputError, match=r"sides of at most 1,000,000"):
            read(tmp_path / "a.png")


@pytest.mark.parametrize(
    "content",
    [
        b"P6\n#" + b"x" * 70_000 + b"\n1 1 255\nabc",
        b"P5\n" + b"#\n" * 35_000 + b"1 1 255\na",
        b"P2\n1 1\n" + b"#\n" * 35_000 + b"255\n7",
        b"P3\n1 1 255\n" + b"#\n" * 35_000 + b"7 7 7",
    ],
)
def test_a_ppm_of_comments_is_refused(tmp_path, content):
    (tmp_path / "a.ppm").write_bytes(content)
    with pytest.raises(InputError, match="header of more than 64 KiB, or comments after it"):
        read_image(tmp_path / "a.ppm")
    (tmp_path / "a.ppm").write_bytes(re.sub(rb"(#x*\n)+", b"# a comment\n", content))
    if b"255\n#" not in content:
        assert image_size(tmp_path / "a.ppm") == (1, 1)


def test_a_bmp_of_run_lengths_is_refused(tmp_path):
    rows = (b"\xff\x05" * 40 + b"\0\0") * 10_000 + b"\0\1"
    header = struct.pack("<IiiHHIIiiII", 40, 10_000, 10_000, 1, 8, 1, len(rows), 0, 0, 256, 0)
    start = struct.pack("<2sIHHI", b"BM", 1078 + len(rows), 0, 0, 1078)
    (tmp_path / "a.bmp").write_bytes(start + header + bytes(1024) + rows)
    for read in (read_header, read_image):
        with pytest.raises(InputError, match=r"compressed by run lengths.*export it as PNG"):
            read(tmp_path / "a.bmp")


def test_a_tiff_of_many_pages_is_read(tmp_path):
    """Pillow would follow each page's link from the first page, in Python."""
    tags = {256: 1, 257: 1, 258: 8, 259: 1, 262: 1, 273: 8, 277: 1, 278: 1, 279: 1}
    page = struct.pack("<H", len(tags))
    page += b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    pages = 20_000
    links = [16 + number * (len(page) + 4) for number in range(1, pages)] + [0]
    content = b"II*\0" + struct.pack("<I", 16) + b"\xab" + bytes(7)
    content += b"".join(page + struct.pack("<I", link) for link in links)
    (tmp_path / "a.tif").write_bytes(content)
    messages = []
    with little_effort():
        image = read_image(tmp_path / "a.tif", report=messages.append)
    assert image.pixels.tolist() == [[[0xAB]]]
    assert messages == ["read the first of 20000 pages"]


def test_a_jpeg_that_would_be_decoded_for_hours(tmp_path):
    content = WHOLE_FILES["progressive.jpg"]
    scan = content.rindex(b"\xff\xda")
    (tmp_path / "a.jpg").write_bytes(content[:scan] + content[scan:-2] * 200 + content[-2:])
    with pytest.raises(InputError):
        read_image(tmp_path / "a.jpg")


def test_much_text_is_read_over(tmp_path):
    extra = chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(1 << 27)))
    (tmp_path / "a.png").write_bytes(png_bytes(PHOTO, 2, extra))
    with little_effort():
        np.testing.assert_array_equal(read_image(tmp_path / "a.png").pixels, PHOTO)


def test_no_more_is_read_than_there_is(tmp_path):
    """A part of a file may claim a size of gigabytes."""
    content = WHOLE_FILES["png"]
    claimed = struct.pack(">I", 0x7FFFFFF0) + b"tEXt"
    (tmp_path / "a.png").write_bytes(content[:33] + claimed + content[33:])
    with little_effort(), pytest.raises(InputError, match="damaged"):
        read_image(tmp_path / "a.png")
