"""Images with colour profiles are converted to sRGB at full depth; damaged profiles do no harm."""

import io
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import icc_profiles as icc
import numpy as np
import pytest
import tifffile
from hypothesis import given, settings
from mutations import mutated
from PIL import Image, ImageCms

import resize
import unpack
from entry.job import reporter
from neuralfield.images import read_image, read_image_bands
from neuralfield.images.tiling import Tiling
from neuralfield.system.errors import InputError

RNG = np.random.default_rng(3)
RGB = RNG.integers(0, 256, (21, 34, 3), np.uint8)
DEEP = RNG.integers(0, 65536, (21, 34, 3)).astype(np.uint16)


def read(path, **options):
    messages = []
    return read_image(path, report=messages.append, **options), messages


def write_tiff(path, levels: np.ndarray, content: bytes) -> None:
    photometric = "rgb" if levels.ndim == 3 else "minisblack"
    tags = [(34675, 7, len(content), content, True)]
    tifffile.imwrite(path, levels, photometric=photometric, extratags=tags)


PROFILES: dict[str, Any] = {
    "Adobe RGB (1998)": (icc.ADOBE, icc.ADOBE_RGB, icc.D65, 2.19921875),
    "ProPhoto RGB": (icc.PRO_PHOTO, icc.PROPHOTO, icc.D50_XY, 461 / 256),
}


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("levels", [RGB, DEEP], ids=["8 bits", "16 bits"])
def test_colours_are_those_of_the_profile(tmp_path, name, levels):
    """In the darkest colours, whose sRGB is steepest, 16 bits are up to two levels of 255 off."""
    content, *definition = PROFILES[name]
    write_tiff(tmp_path / "a.tif", levels, content)
    image, messages = read(tmp_path / "a.tif")
    assert messages == [f"converted from {name} to sRGB"]
    assert image.bit_depth == 8 * levels.itemsize
    errors = np.abs(image.values() - icc.truth(levels, *definition)) * 255
    assert errors.max() <= 2.5 and np.quantile(errors, 0.95) <= 1
    bands = [band.pixels for band in read_image_bands(tmp_path / "a.tif", "rgb")]
    np.testing.assert_array_equal(np.concatenate(bands), image.pixels)


@pytest.mark.parametrize("suffix", ["png", "jpg", "webp"])
def test_other_formats_and_alpha(tmp_path, suffix):
    smooth = np.kron(RGB[:4, :4], np.ones((16, 16, 1), np.uint8))
    alpha = [] if suffix == "jpg" else [smooth[..., 1]]
    options: Any = {"icc_profile": icc.PRO_PHOTO, "lossless": True, "exact": True, "quality": 98}
    Image.fromarray(np.dstack([smooth, *alpha])).save(tmp_path / f"a.{suffix}", **options)
    stored = np.asarray(Image.open(tmp_path / f"a.{suffix}"))
    image, _ = read(tmp_path / f"a.{suffix}")
    expected = icc.truth(stored[..., :3], *PROFILES["ProPhoto RGB"][1:])
    np.testing.assert_allclose(image.values()[..., :3], expected, atol=1 / 255)
    np.testing.assert_array_equal(image.pixels[..., 3:], stored[..., 3:])


@pytest.mark.parametrize("depth", [8, 16])
def test_grey_stays_grey_and_white_white(tmp_path, depth):
    white = 2**depth - 1
    ramp = np.linspace(0, white, 256).astype(np.uint16 if depth == 16 else np.uint8).reshape(8, 32)
    for content, exponent in ((icc.ADOBE, 563 / 256), (icc.PRO_PHOTO, 1.8), (icc.GAMMA_1_8, 1.8)):
        grey = content is icc.GAMMA_1_8
        levels = ramp if grey else np.repeat(ramp[..., None], 3, axis=2)
        write_tiff(tmp_path / "a.tif", levels, content)
        image, _ = read(tmp_path / "a.tif")
        assert (image.mode, image.bit_depth) == ("grey", depth)
        assert (image.pixels.min(), image.pixels.max()) == (0, white)
        expected = icc.encode_srgb((ramp / white) ** exponent)
        np.testing.assert_allclose(image.values()[..., 0], expected, atol=1.6 / 255)


@pytest.mark.parametrize("suffix", ["tif", "jpg"])
def test_inks_go_through_their_tables(tmp_path, suffix):
    content, path = icc.cmyk_profile(), tmp_path / f"a.{suffix}"
    inks = np.kron(RNG.integers(0, 256, (4, 4, 4), np.uint8), np.ones((16, 16, 1), np.uint8))
    options: dict[str, Any] = {"quality": 98} if suffix == "jpg" else {}
    Image.fromarray(inks, "CMYK").save(path, icc_profile=content, **options)
    expected = ImageCms.profileToProfile(
        Image.open(path),
        ImageCms.ImageCmsProfile(io.BytesIO(content)),
        ImageCms.createProfile("sRGB"),
        renderingIntent=ImageCms.Intent.RELATIVE_COLORIMETRIC,
        outputMode="RGB",
        flags=ImageCms.Flags.BLACKPOINTCOMPENSATION,
    )
    image, messages = read(path)
    assert messages == ["converted from Test ink to sRGB"]
    difference = np.abs(image.pixels.astype(int) - np.asarray(expected))
    assert difference.max() <= 3 and difference.mean() < 0.6


def test_a_profile_of_srgb_leaves_every_level(tmp_path):
    content = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    for levels in (RGB, DEEP):
        write_tiff(tmp_path / "a.tif", levels, content)
        image, messages = read(tmp_path / "a.tif")
        assert messages == []
        np.testing.assert_array_equal(image.pixels, levels)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"no profile at all", "was not used"),
        (icc.GAMMA_1_8, "it is for GRAY, the image is RGB"),
        (icc.cmyk_profile(), "it is for CMYK, the image is RGB"),
    ],
)
def test_what_is_no_profile_for_it_is_not_used(tmp_path, content, reason):
    write_tiff(tmp_path / "a.tif", RGB, content)
    image, messages = read(tmp_path / "a.tif")
    assert len(messages) == 1 and reason in messages[0]
    np.testing.assert_array_equal(image.pixels, RGB)


@settings(max_examples=100)
@given(mutated([icc.ADOBE, icc.GAMMA_1_8, icc.cmyk_profile()]))
def test_profiles_from_strangers(tmp_path, content):
    inks = RGB[:2].reshape(2, -1)[:, :100].reshape(2, 25, 4)
    for levels, photometric in ((DEEP[:2], "rgb"), (RGB[:2, :, 0], "minisblack"), (inks, 5)):
        tags = [(34675, 7, len(content), content, True)]
        path = tmp_path / "a.tif"
        tifffile.imwrite(path, levels, photometric=photometric, extratags=tags)
        image, messages = read(path)
        assert (image.height, image.width) == levels.shape[:2]
        assert all("\n" not in line for line in messages)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_floats_are_linear_light(tmp_path, channels):
    light = RNG.random((9, 7, channels)).astype(np.float32)
    light[0, 0], light[8, 6] = -0.5, 7
    photometric = "minisblack" if channels == 1 else "rgb"
    options: dict[str, Any] = {"extrasamples": ["unassalpha"]} if channels == 4 else {}
    options["extratags"] = [(274, "H", 1, 6, True)]  # turned
    tifffile.imwrite(tmp_path / "a.tif", light.squeeze(), photometric=photometric, **options)
    image, messages = read(tmp_path / "a.tif")
    assert image.bit_depth == 16 and "from -0.5 to 7 were taken as linear light" in messages[0]
    upright, colours = np.rot90(light, -1).clip(0, 1), min(channels, 3)
    expected = icc.encode_srgb(upright[..., :colours])
    np.testing.assert_allclose(image.values()[..., :colours], expected, atol=1e-5)
    np.testing.assert_allclose(image.values()[..., 3:], upright[..., 3:], atol=1e-5)
    light[0, 0] = np.nan
    tifffile.imwrite(tmp_path / "a.tif", light.squeeze(), photometric=photometric)
    with pytest.raises(InputError, match="not finite"):
        read(tmp_path / "a.tif")


def test_what_was_done_to_the_colours_is_reported(tmp_path, capsys):
    Image.fromarray(RGB).save(tmp_path / "a.png", icc_profile=icc.ADOBE)
    job = SimpleNamespace(rule="resize", wildcards=["photo"])
    outputs = (tmp_path / "resized.png", tmp_path / "picture.json")
    resize.main(tmp_path / "a.png", *outputs, size=None, report=reporter(job))
    line = "resize photo: converted from Adobe RGB (1998) to sRGB\n"
    assert capsys.readouterr().err == line
    unpack_outputs = (tmp_path / "pixels.npy", tmp_path / "facts.json")
    tiling = asdict(Tiling(34, 21, 16, 4))
    unpack.main(tmp_path / "a.png", *unpack_outputs, tiling=tiling, report=reporter(job))
    assert capsys.readouterr().err == line
    image, messages = read(tmp_path / "resized.png")
    assert messages == []
    np.testing.assert_array_equal(np.load(tmp_path / "pixels.npy"), image.pixels)
