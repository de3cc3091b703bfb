"""Images with colour profiles are converted to sRGB at full depth; damaged profiles do no harm."""

import io
import zlib
from types import SimpleNamespace
from typing import Any

import icc_profiles as icc
import numpy as np
import pytest
import tifffile
from hypothesis import HealthCheck, given, settings
from mutations import mutated
from PIL import Image, ImageCms
from test_images_reading import chunk, png_bytes

import resize
import unpack
from entry.job import reporter
from neuralfield.images import ImageData, read_image, read_image_bands, write_image
from neuralfield.images.colour import conversion_of
from neuralfield.images.icc import encode_srgb
from neuralfield.images.image_file import image_size
from neuralfield.images.tiling import Tiling
from neuralfield.system.errors import InputError

RNG = np.random.default_rng(3)
RGB = RNG.integers(0, 256, (21, 34, 3), np.uint8)
DEEP = RNG.integers(0, 65536, (21, 34, 3)).astype(np.uint16)
SRGB_TO_XYZ = icc.to_xyz(icc.SRGB, icc.D65)


def read(path, **options):
    messages = []
    return read_image(path, report=messages.append, **options), messages


def truth(levels: np.ndarray, primaries: tuple, white: tuple, exponent: float) -> np.ndarray:
    """Compute sRGB in [0, 1] by the definition, in float64."""
    linear = (levels / np.iinfo(levels.dtype).max) ** exponent
    to_srgb = np.linalg.inv(SRGB_TO_XYZ) @ icc.to_xyz(primaries, white)
    return encode_srgb(linear @ to_srgb.T)


PROFILES: dict[str, Any] = {
    "Adobe RGB (1998)": (icc.ADOBE, icc.ADOBE_RGB, icc.D65, 2.19921875),
    "ProPhoto RGB": (icc.PRO_PHOTO, icc.PROPHOTO, icc.D50_XY, 461 / 256),
}


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("suffix", ["png", "tif", "webp"])
def test_colours_are_those_of_the_profile(tmp_path, name, suffix):
    content, *definition = PROFILES[name]
    path = tmp_path / f"a.{suffix}"
    Image.fromarray(RGB).save(path, icc_profile=content, lossless=True)
    pixel_data, messages = read(path)
    assert messages == [f"converted from {name} to sRGB"]
    np.testing.assert_allclose(pixel_data.values(), truth(RGB, *definition), atol=1 / 255)
    bands = [band.pixels for band in read_image_bands(path, "rgb")]
    np.testing.assert_array_equal(np.concatenate(bands), pixel_data.pixels)


def test_a_jpeg_and_an_alpha(tmp_path):
    smooth = np.kron(RGB[:4, :4], np.ones((16, 16, 1), np.uint8))
    Image.fromarray(smooth).save(tmp_path / "a.jpg", icc_profile=icc.PRO_PHOTO, quality=98)
    stored = np.asarray(Image.open(tmp_path / "a.jpg"))
    expected = truth(stored, icc.PROPHOTO, icc.D50_XY, 461 / 256)
    np.testing.assert_allclose(read(tmp_path / "a.jpg")[0].values(), expected, atol=1 / 255)
    alpha = np.dstack([RGB, RGB[..., 1]])
    Image.fromarray(alpha).save(tmp_path / "a.png", icc_profile=icc.ADOBE)
    pixel_data, _ = read(tmp_path / "a.png")
    assert pixel_data.mode == "rgba"
    np.testing.assert_array_equal(pixel_data.pixels[..., 3], RGB[..., 1])
    expected = truth(RGB, icc.ADOBE_RGB, icc.D65, 2.19921875)
    np.testing.assert_allclose(pixel_data.values()[..., :3], expected, atol=1 / 255)


@pytest.mark.parametrize("name", PROFILES)
def test_16_bits_stay_16_bits(tmp_path, name):
    content, *definition = PROFILES[name]
    iccp = chunk(b"iCCP", b"a\0\0" + zlib.compress(content))
    (tmp_path / "a.png").write_bytes(png_bytes(DEEP, 2, extra=iccp))
    tags = [(34675, 7, len(content), content, True)]
    tifffile.imwrite(tmp_path / "a.tif", DEEP, photometric="rgb", extratags=tags)
    expected = truth(DEEP, *definition) * 65535
    for path in (tmp_path / "a.png", tmp_path / "a.tif"):
        pixel_data, messages = read(path)
        assert (pixel_data.bit_depth, messages) == (16, [f"converted from {name} to sRGB"])
        # primaries have four digits, whose rounding matters where sRGB is steepest
        errors = np.abs(pixel_data.pixels - expected)
        assert errors.max() < 130 and np.median(errors) < 10


@pytest.mark.parametrize("depth", [8, 16])
def test_grey_stays_grey_and_white_white(tmp_path, depth):
    white = 2**depth - 1
    ramp = np.linspace(0, white, 256).astype(np.uint16 if depth == 16 else np.uint8).reshape(8, 32)
    levels = np.repeat(ramp[..., None], 3, axis=2)
    path = tmp_path / "a.tif"
    for content in (icc.ADOBE, icc.PRO_PHOTO):
        tags = [(34675, 7, len(content), content, True)]
        tifffile.imwrite(path, levels, photometric="rgb", extratags=tags)
        pixel_data, _ = read(path)
        assert pixel_data.mode == "grey" and pixel_data.pixels.min() == 0
        assert pixel_data.pixels.max() == white


@pytest.mark.parametrize("depth", [8, 16])
def test_grey_profiles(tmp_path, depth):
    levels = (RGB[..., 0] if depth == 8 else DEEP[..., 0]) | 1
    tags = [(34675, 7, len(icc.GAMMA_1_8), icc.GAMMA_1_8, True)]
    tifffile.imwrite(tmp_path / "a.tif", levels, photometric="minisblack", extratags=tags)
    pixel_data, messages = read(tmp_path / "a.tif")
    assert messages == ["converted from Grey gamma 1.8 to sRGB"]
    assert (pixel_data.mode, pixel_data.bit_depth) == ("grey", depth)
    white = 2**depth - 1
    expected = encode_srgb((levels / white) ** (461 / 256))[..., None]
    np.testing.assert_allclose(pixel_data.values(), expected, atol=0.51 / white)
    bands = [band.pixels for band in read_image_bands(tmp_path / "a.tif", "grey")]
    np.testing.assert_array_equal(np.concatenate(bands), pixel_data.pixels)


@pytest.mark.parametrize("suffix", ["tif", "jpg"])
def test_inks_go_through_their_tables(tmp_path, suffix):
    """Both readers agree with Little CMS, or with the documented rule if there is no profile."""
    content, path = icc.cmyk_profile(), tmp_path / f"a.{suffix}"
    inks = np.kron(RNG.integers(0, 256, (4, 4, 4), np.uint8), np.ones((16, 16, 1), np.uint8))
    image = Image.fromarray(inks, "CMYK")
    options: dict[str, Any] = {"quality": 98} if suffix == "jpg" else {}
    image.save(path, icc_profile=content, **options)
    stored = Image.open(path)
    flags = ImageCms.Flags.BLACKPOINTCOMPENSATION
    expected = ImageCms.profileToProfile(
        stored,
        ImageCms.ImageCmsProfile(io.BytesIO(content)),
        ImageCms.createProfile("sRGB"),
        renderingIntent=ImageCms.Intent.RELATIVE_COLORIMETRIC,
        outputMode="RGB",
        flags=flags,
    )
    pixel_data, messages = read(path)
    assert messages == ["converted from Test ink to sRGB"]
    difference = np.abs(pixel_data.pixels.astype(int) - np.asarray(expected))
    assert difference.max() <= 3 and difference.mean() < 0.6
    bands = [band.pixels for band in read_image_bands(path, "rgb")]
    assert np.abs(np.concatenate(bands).astype(int) - pixel_data.pixels).max() <= 1
    image.save(path, **options)
    pixel_data, messages = read(path)
    assert "CMYK without" in messages[0]
    inks = np.asarray(Image.open(path)) / 255
    plain = (1 - inks[..., :3]) * (1 - inks[..., 3:])
    np.testing.assert_allclose(pixel_data.values(), plain, atol=1.01 / 255)


def test_a_profile_of_srgb_leaves_every_level(tmp_path):
    own = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    tables = icc.rgb_profile("sRGB", icc.SRGB, icc.D65, icc.table(srgb_to_linear))
    for content in (own, icc.LIKE_SRGB, tables):
        Image.fromarray(RGB).save(tmp_path / "a.png", icc_profile=content)
        pixel_data, messages = read(tmp_path / "a.png")
        assert messages == []
        np.testing.assert_array_equal(pixel_data.pixels, RGB)


def srgb_to_linear(values: np.ndarray) -> np.ndarray:
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (icc.ADOBE[:300], "beyond the profile"),
        (b"no profile at all", "not an ICC profile"),
        (icc.GAMMA_1_8, "it is for GRAY, the image is RGB"),
        (icc.cmyk_profile(), "it is for CMYK, the image is RGB"),
        (icc.rgb_profile("x", icc.SRGB, icc.D65, icc.formula(1, 2.0, 0.0, 1.0)), "zero"),
        (icc.rgb_profile("x", icc.SRGB, icc.D65, icc.power(0.0)), "damaged curve"),
    ],
)
def test_what_is_no_profile_for_it_is_not_used(tmp_path, content, reason):
    Image.fromarray(RGB).save(tmp_path / "a.png", icc_profile=content)
    pixel_data, messages = read(tmp_path / "a.png")
    assert len(messages) == 1 and reason in messages[0]
    np.testing.assert_array_equal(pixel_data.pixels, RGB)


def test_a_profile_over_the_limit(tmp_path):
    content = icc.ADOBE + bytes(17 << 20)
    Image.fromarray(RGB).save(tmp_path / "a.tif", icc_profile=content)
    _, messages = read(tmp_path / "a.tif")
    assert "was not used" in messages[0]
    Image.fromarray(RGB).save(tmp_path / "a.png", icc_profile=content)
    with pytest.raises(InputError, match=r"at most 16 MiB.*without its metadata"):
        read(tmp_path / "a.png")


@settings(
    max_examples=100,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(mutated([icc.ADOBE, icc.GAMMA_1_8, icc.cmyk_profile(), icc.LIKE_SRGB]))
def test_profiles_from_strangers(content):
    for space, levels in (("RGB", DEEP[:2]), ("GRAY", RGB[:2, :, :1]), ("CMYK", RGB[:2, :30])):
        messages = []
        image = levels if space != "CMYK" else RGB[:2].reshape(2, -1)[:, :100].reshape(2, 25, 4)
        convert = conversion_of(content, space, messages.append)
        converted = convert(np.ascontiguousarray(image))
        assert converted.dtype == image.dtype and converted.shape[:2] == image.shape[:2]
        assert all("\n" not in line for line in messages)


def test_what_is_written_says_that_it_is_srgb(tmp_path):
    write_image(tmp_path / "a.png", ImageData(RGB, "rgb", 8))
    with Image.open(tmp_path / "a.png") as image:
        assert image.info["srgb"] == 1
    pixel_data, messages = read(tmp_path / "a.png")
    assert messages == []
    np.testing.assert_array_equal(pixel_data.pixels, RGB)


# --- floating-point values


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_floats_are_linear_light(tmp_path, channels):
    light = RNG.random((9, 7, channels)).astype(np.float32)
    photometric = "minisblack" if channels == 1 else "rgb"
    options: dict[str, Any] = {"extrasamples": ["unassalpha"]} if channels == 4 else {}
    tifffile.imwrite(tmp_path / "a.tif", light.squeeze(), photometric=photometric, **options)
    pixel_data, messages = read(tmp_path / "a.tif")
    assert pixel_data.bit_depth == 16 and "linear light" in messages[0]
    assert image_size(tmp_path / "a.tif") == (7, 9)  # the config asks for it before any job
    colours = min(channels, 3)
    np.testing.assert_allclose(
        pixel_data.values()[..., :colours], encode_srgb(light[..., :colours]), atol=1e-5
    )
    np.testing.assert_allclose(pixel_data.values()[..., 3:], light[..., 3:], atol=1e-5)


def test_floats_of_a_linear_profile(tmp_path):
    light = RNG.random((9, 7, 3)).astype(np.float32)
    tags = [(34675, 7, len(icc.LINEAR), icc.LINEAR, True)]
    tifffile.imwrite(tmp_path / "a.tif", light, photometric="rgb", extratags=tags)
    pixel_data, messages = read(tmp_path / "a.tif")
    assert messages == ["converted from Linear Adobe RGB to sRGB"]
    to_srgb = np.linalg.inv(SRGB_TO_XYZ) @ icc.to_xyz(icc.ADOBE_RGB, icc.D65)
    np.testing.assert_allclose(pixel_data.values(), encode_srgb(light @ to_srgb.T), atol=1e-3)


def test_floats_outside_are_clipped_and_those_that_are_none_refused(tmp_path):
    light = np.array([[-0.5, 0.25], [1.0, 7.0]], np.float32)
    tifffile.imwrite(tmp_path / "a.tif", light)
    pixel_data, messages = read(tmp_path / "a.tif")
    assert pixel_data.pixels.ravel().tolist() == [0, 35199, 65535, 65535]
    assert messages[0] == "2 pixels outside [0, 1] were clipped; values are from -0.5 to 7"
    light[0, 0] = np.nan
    tifffile.imwrite(tmp_path / "a.tif", light)
    with pytest.raises(InputError, match=r"not finite; expected linear light.*export it again"):
        read(tmp_path / "a.tif")
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((30, 30), np.float32))
    with pytest.raises(InputError, match="900 pixels"):
        read(tmp_path / "a.tif", max_megapixels=0.0005)


def test_what_was_done_to_the_colours_is_reported(tmp_path, capsys):
    Image.fromarray(RGB).save(tmp_path / "a.png", icc_profile=icc.ADOBE)
    job = SimpleNamespace(rule="resize", wildcards=["photo"])
    outputs = (tmp_path / "resized.png", tmp_path / "picture.json")
    resize.main(tmp_path / "a.png", *outputs, size=None, report=reporter(job))
    line = "resize photo: converted from Adobe RGB (1998) to sRGB\n"
    assert capsys.readouterr().err == line
    unpack_outputs = (tmp_path / "pixels.npy", tmp_path / "facts.json")
    tiling = Tiling(34, 21, 16, 4)
    unpack.main(tmp_path / "a.png", *unpack_outputs, tiling=tiling, report=reporter(job))
    assert capsys.readouterr().err == line
    pixel_data, messages = read(tmp_path / "resized.png")
    assert messages == []
    np.testing.assert_array_equal(np.load(tmp_path / "pixels.npy"), pixel_data.pixels)


def test_floats_come_upright(tmp_path):
    light = RNG.random((4, 9, 3)).astype(np.float32)
    tags = [(274, "H", 1, 6, True)]
    tifffile.imwrite(tmp_path / "a.tif", light, photometric="rgb", extratags=tags)
    upright = encode_srgb(np.rot90(light, -1))
    np.testing.assert_allclose(read(tmp_path / "a.tif")[0].values(), upright, atol=1e-5)
