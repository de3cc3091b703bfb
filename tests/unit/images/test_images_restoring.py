"""Restoring of drawings that were scanned, compressed or blurred."""

import re

import numpy as np
import pytest
from PIL import ExifTags, Image

import neuralfield as nf
from neuralfield.images import ImageData, read_image, resize_image
from neuralfield.images.degradation import estimate_degradation
from neuralfield.images.jpeg_file import Jpeg, read_jpeg
from neuralfield.images.kind import Kind, kind_of
from neuralfield.images.metrics import psnr_db
from neuralfield.images.restoring import restore
from neuralfield.system.errors import ConfigError

_SIDE_PX, _FACTOR = 120, 5


def _drawing(blur_px: float = 0.0) -> np.ndarray:
    """Return rings and bars, in which ink is 0 and paper 1; float32, shape (side, side)."""
    side = _SIDE_PX * _FACTOR
    y, x = (np.mgrid[:side, :side] + 0.5) / _FACTOR
    radius = np.hypot(x - 60, y - 62)
    is_ink = (np.abs(radius - 22) < 2.5) | (np.abs(radius - 40) < 1.2) | (radius < 9)
    for place in range(8, 112, 12):
        is_ink |= (np.abs(y - place - 0.13 * x) < 0.9) & (radius > 48)
    return _means(is_ink, blur_px)


def _means(is_ink: np.ndarray, blur_px: float) -> np.ndarray:
    """Return the means over pixels of blurred ink; float32, shape (side, side)."""
    image = (~is_ink).astype(np.float32)
    if blur_px:
        taps = np.arange(-4 * _FACTOR, 4 * _FACTOR + 1) / _FACTOR
        window = np.exp(-(taps**2) / (2 * blur_px**2))
        for _ in range(2):
            padded = np.pad(image.T, ((0, 0), (20, 20)), "edge")
            image = np.stack([np.convolve(row, window / window.sum(), "valid") for row in padded])
    return image.reshape(_SIDE_PX, _FACTOR, _SIDE_PX, _FACTOR).mean((1, 3)).astype(np.float32)


def _as_image(values: np.ndarray) -> ImageData:
    return ImageData.from_values(values[..., None], "grey", 8)


def _scan(blur_px: float = 0.7, noise: float = 0.015) -> ImageData:
    y, x = np.mgrid[:_SIDE_PX, :_SIDE_PX] / _SIDE_PX
    shade = 1 + 0.06 * x - 0.04 * y
    random = np.random.default_rng(3).normal(0, noise, (_SIDE_PX, _SIDE_PX))
    return _as_image((0.15 + 0.73 * _drawing(blur_px)) * shade + random)


def _db(image: ImageData) -> float:
    return psnr_db(image.values()[..., 0], _drawing())


def test_a_sharp_drawing_and_a_photograph_are_left_as_they_are():
    assert restore(_as_image(_drawing())) is None
    y, x = np.mgrid[:96, :96] / 96
    random = np.random.default_rng(0).normal(0, 0.05, (96, 96))
    assert restore(_as_image(0.5 + 0.3 * np.sin(7 * x + 5 * y * y) + random)) is None
    assert restore(ImageData(np.full((96, 96, 3), (80, 120, 200), np.uint8), "rgb", 8)) is None


def test_a_scan_becomes_black_and_white_and_sharp():
    scan = _scan()
    restored = restore(scan, threads=2)
    assert restored is not None
    found = restored.degradation
    assert float(np.median(found.paper)) == pytest.approx(0.89, abs=0.02)
    assert found.ink == pytest.approx(0.15 / 0.88, abs=0.03)
    assert found.blur_px == pytest.approx(0.7, abs=0.15)
    assert found.noise == pytest.approx(0.015 / 0.73, abs=0.01)
    assert str(found).startswith("a scan: paper 22")
    stretched = np.clip((scan.values()[..., 0] - 0.15) / 0.73, 0, 1)
    assert _db(restored.image) > psnr_db(stretched, _drawing()) + 6
    paper = restored.image.pixels[:6, :6]
    assert (paper >= 251).all()


def test_the_blur_of_a_scan_that_looks_sharp_is_fitted():
    restored = restore(_scan(blur_px=0.35, noise=0.012))
    assert restored is not None
    assert restored.degradation.blur_px == pytest.approx(0.35, abs=0.1)
    assert _db(restored.image) > 35  # 30 without blur


def test_noise_and_blur_alone_are_removed():
    random = np.random.default_rng(1).normal(0, 0.03, (_SIDE_PX, _SIDE_PX))
    for image in (_as_image(_drawing() + random), _as_image(_drawing(0.6))):
        restored = restore(image)
        assert restored is not None
        assert _db(restored.image) > _db(image) + 4


def test_slopes_of_strong_blur_are_not_taken_for_noise():
    y, x = (np.mgrid[: _SIDE_PX * _FACTOR, : _SIDE_PX * _FACTOR] + 0.5) / _FACTOR
    is_ink = (np.hypot(x - 60, y - 62) + 0.25) % 12 < 1
    restored = restore(_as_image(_means(is_ink, blur_px=1.2)))
    assert restored is not None
    assert restored.degradation.noise == 0
    assert psnr_db(restored.image.values()[..., 0], _means(is_ink, blur_px=0)) > 30


def test_lines_that_are_nowhere_black_are_restored():
    side = _SIDE_PX * _FACTOR
    y, x = (np.mgrid[:side, :side] + 0.5) / _FACTOR
    is_ink = (np.hypot(x - 60, y - 62) + 0.25) % 9 < 0.4
    means = (~is_ink).reshape(_SIDE_PX, _FACTOR, _SIDE_PX, _FACTOR).mean((1, 3))
    image = _as_image(means + np.random.default_rng(2).normal(0, 0.02, means.shape))
    restored = restore(image)
    assert restored is not None
    before, after = (psnr_db(one.values()[..., 0], means) for one in (image, restored.image))
    assert after > before + 3


def _dashes(wide_px, blur_px):
    """Return a noisy scan of thin dashed circles, and their means over pixels."""
    y, x = (np.mgrid[: _SIDE_PX * _FACTOR, : _SIDE_PX * _FACTOR] + 0.5) / _FACTOR
    is_dash = np.arctan2(y - 62, x - 60) * 12 // 1 % 3 < 2
    is_ink = ((np.hypot(x - 60, y - 62) + 0.25) % 6 < wide_px) & is_dash
    random = np.random.default_rng(2).normal(0, 0.012, (_SIDE_PX, _SIDE_PX))
    scan = 0.1 + 0.75 * _means(is_ink, blur_px=blur_px) + random
    return _as_image(scan), _means(is_ink, blur_px=0)


def test_thin_dashes_in_a_blurred_scan_are_restored():
    image, truth = _dashes(0.4, 0.6)
    restored = restore(image)
    assert restored is not None
    values = restored.image.values()[..., 0]
    assert psnr_db(values, truth) > psnr_db(image.values()[..., 0], truth) + 3
    assert (1 - values).sum() == pytest.approx((1 - truth).sum(), rel=0.15)


def test_a_few_thin_lines_on_noisy_white_paper_are_restored():
    side = _SIDE_PX * _FACTOR
    y, x = (np.mgrid[:side, :side] + 0.5) / _FACTOR
    drawing = _means(np.abs(np.hypot(x - 60, y - 62) - 30) < 0.2, 0)
    noise = np.random.default_rng(4).normal(0, 0.03, drawing.shape)
    noisy = _as_image(np.clip(drawing + noise, 0, 1))
    restored = restore(noisy)
    assert restored is not None
    before_db, after_db = (
        psnr_db(image.values()[..., 0], drawing) for image in (noisy, restored.image)
    )
    assert after_db > before_db + 3


def test_dense_blurred_lines_of_a_scan_are_restored():
    y, x = (np.mgrid[: _SIDE_PX * _FACTOR, : _SIDE_PX * _FACTOR] + 0.5) / _FACTOR
    is_ink = ((y + 0.1 * x) % 7 < 2) & (np.abs(x - 60) < 50) & (np.abs(y - 60) < 50)
    noise = np.random.default_rng(2).normal(0, 0.01, (_SIDE_PX, _SIDE_PX))
    restored = restore(_as_image(0.1 + 0.8 * _means(is_ink, blur_px=0.9) + noise))
    assert restored is not None
    assert restored.degradation.blur_px == pytest.approx(0.9, abs=0.15)
    assert psnr_db(restored.image.values()[..., 0], _means(is_ink, blur_px=0)) > 27


def test_dashes_that_contours_would_lose_become_grey_on_white_paper():
    image, truth = _dashes(0.25, 1.0)
    restored = restore(image)
    assert restored is not None
    values = restored.image.values()[..., 0]
    assert np.percentile(values, 90) > 0.97
    assert psnr_db(values, truth) > psnr_db(image.values()[..., 0], truth) + 5


def test_a_page_with_a_photograph_is_left():
    page = _drawing()
    y, x = np.mgrid[:50, :40] / 40
    page[60:110, 60:100] = 0.4 + 0.25 * np.sin(5 * x + 3 * y * y)
    noise = np.random.default_rng(4).normal(0, 0.01, page.shape)
    assert restore(_as_image(page + noise)) is None


def test_results_do_not_depend_on_threads():
    scan = _scan()
    first, second = restore(scan, threads=1), restore(scan, threads=3)
    assert first is not None
    assert second is not None
    np.testing.assert_array_equal(first.image.pixels, second.image.pixels)


def test_estimates_can_be_given():
    scan = _scan()
    restored = restore(scan, {"ink": 0.1, "noise": 0.05, "blur_px": 0.9})
    assert restored is not None
    found = restored.degradation
    assert (found.ink, found.noise, found.blur_px) == (0.1, 0.05, 0.9)
    assert restore(scan, False) is None
    with pytest.raises(ConfigError, match="blur"):
        restore(scan, {"blur_px": 9})
    with pytest.raises(ConfigError, match="sharpness"):
        restore(scan, {"sharpness": 1})


def _saved(path, values: np.ndarray, **settings) -> tuple[ImageData, Jpeg]:
    """Save a drawing; return the image that is read from the file, and how it was compressed."""
    Image.fromarray(_as_image(values).pixels[..., 0]).save(path, **settings)
    image = read_image(path)
    jpeg = read_jpeg(path, image)
    assert jpeg is not None
    return image, jpeg


def test_the_noise_of_a_jpeg_follows_from_its_tables(tmp_path):
    image, jpeg = _saved(tmp_path / "drawing.jpg", _drawing(), quality=60)
    assert jpeg.quality == 60
    assert jpeg.mean_step > 2 * jpeg._replace(reduction=2.5).mean_step
    values = image.values()[..., 0]
    error = float(np.std(values - _drawing()))
    assert estimate_degradation(values, jpeg=jpeg)[0].noise == pytest.approx(error, rel=0.6)


@pytest.mark.parametrize("settings", [{"quality": 60}, {"quality": 85, "progressive": True}])
def test_contours_of_a_jpeg_follow_from_its_quantisation(tmp_path, settings):
    values = _drawing()[:115, :117]  # sides that are no multiples of 8
    image, jpeg = _saved(tmp_path / "drawing.jpg", values, **settings)
    found = [restore(image, jpeg=one) for one in (jpeg, jpeg._replace(luma=None))]
    exact, noisy = (psnr_db(one.image.values()[..., 0], values) for one in found if one)
    assert exact > noisy + 0.5
    assert str(found[0]).startswith(f"a JPEG of quality {settings['quality']}: paper 255, ink 0")


def test_luma_is_that_of_a_file_whose_pixels_are_those_of_the_image(tmp_path):
    path = tmp_path / "drawing.jpg"
    image, jpeg = _saved(path, _drawing(), quality=75)
    assert jpeg.luma is not None
    assert np.mean(np.abs(np.clip(jpeg.luma, 0, 1) - image.values()[..., 0])) < 1e-3
    assert jpeg.luma.max() > 1.01  # it is not clipped
    turned = ImageData(np.ascontiguousarray(image.pixels[::-1]), "grey", 8)
    for other in (turned, resize_image(image, 60)):
        found = read_jpeg(path, other)
        assert found is not None
        assert found.luma is None
    (tmp_path / "damaged.jpg").write_bytes(b"\xff\xd8\xff")
    assert read_jpeg(tmp_path / "damaged.jpg", image) is None


def test_luma_is_not_that_of_a_turned_file_or_of_colours_without_it(tmp_path, monkeypatch):
    path = tmp_path / "drawing.jpg"
    sparse = np.ones((128, 128))
    sparse[20:22, 10:100] = 0
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    _, turned = _saved(path, sparse, exif=exif)
    assert turned.luma is None
    Image.new("CMYK", (128, 128), (0, 0, 0, 9)).save(path)
    found = read_jpeg(path, _as_image(sparse))
    assert found is not None
    assert found.luma is None
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)  # Pillow raises errors above twice as many
    assert read_jpeg(path, _as_image(sparse)) is None


def test_a_fit_of_a_scan_is_of_the_restored_drawing(tmp_path, caplog):
    path = tmp_path / "scan.png"
    Image.fromarray(_scan().pixels[..., 0]).save(path)
    settings = {"steps": 1, "width": 8, "hidden_layers": 1, "device": "cpu"}
    with caplog.at_level("INFO"):
        restored = nf.fit(path, **settings)
    assert "restored, because it is a scan: paper 22" in caplog.text
    assert restored.psnr != nf.fit(path, restore=False, **settings).psnr


@pytest.mark.parametrize("levels", [(0.0, 1.0), (0.2, 0.9)])
def test_the_two_tone_filter_is_sharper_than_lanczos_and_keeps_the_levels(levels):
    ink, paper = levels
    image = _as_image(ink + (paper - ink) * _drawing())
    enlarged = resize_image(image, 3 * _SIDE_PX, "two_tone").values()
    assert enlarged.min() == pytest.approx(ink, abs=0.01)
    assert enlarged.max() == pytest.approx(paper, abs=0.01)
    greys = [
        np.mean((values > ink + 0.1) & (values < paper - 0.1))
        for values in (enlarged, resize_image(image, 3 * _SIDE_PX, "lanczos").values())
    ]
    assert greys[0] < 0.6 * greys[1]


_BLUE, _CREAM = np.array([0.16, 0.24, 0.6]), np.array([0.94, 0.9, 0.78])


def _in_colour(ink: np.ndarray = _BLUE) -> ImageData:
    """Return a scan in coloured ink on yellowed, shaded paper."""
    random = np.random.default_rng(5).normal(0, 0.01, (_SIDE_PX, _SIDE_PX, 3))
    values = ink + _drawing(0.6)[..., None] * (_CREAM - ink)
    values *= np.linspace(0.96, 1.02, _SIDE_PX)[:, None]
    return ImageData.from_values(values + random, "rgb", 8)


def test_coloured_ink_on_coloured_paper_keeps_its_colour_on_white_paper():
    restored = restore(_in_colour())
    assert restored is not None
    assert re.search(r", ink #2[0-9a-f]{5} on paper #e[0-9a-f]{5}$", str(restored))
    values = restored.image.values()
    assert np.all(values[:4, :4] > 0.97)
    ink = np.median(values[_drawing() == 0], axis=0)
    np.testing.assert_allclose(ink, _BLUE / _CREAM, atol=0.05)
    shares = (values - ink)[..., 0] / (1 - ink[0])
    assert psnr_db(shares, _drawing()) > 22


def test_coloured_ink_in_a_jpeg_is_restored_by_its_luma(tmp_path):
    path = tmp_path / "blue.jpg"
    values = _BLUE + _drawing()[..., None] * (1 - _BLUE)
    Image.fromarray(ImageData.from_values(values, "rgb", 8).pixels).save(path, quality=60)
    image = read_image(path)
    restored = restore(image, jpeg=read_jpeg(path, image))
    assert restored is not None
    assert str(restored).startswith("a JPEG of quality 60: paper 255, ink 6")
    assert psnr_db(restored.image.values(), values) > psnr_db(image.values(), values) + 3


def test_a_drawing_can_keep_its_own_levels():
    scan, colour = restore(_scan(), {"levels": "own"}), restore(_in_colour(), {"levels": "own"})
    assert scan is not None
    assert colour is not None
    grey = scan.image.values()[..., 0]
    assert np.median(grey) == pytest.approx(0.89, abs=0.02)
    assert np.median(grey[_drawing() == 0]) == pytest.approx(0.15, abs=0.03)
    values = colour.image.values()
    np.testing.assert_allclose(np.median(values, axis=(0, 1)), _CREAM, atol=0.03)
    np.testing.assert_allclose(np.median(values[_drawing() == 0], axis=0), _BLUE, atol=0.05)
    with pytest.raises(ConfigError, match="clean or own"):
        restore(_scan(), {"levels": "white"})


def test_a_clean_drawing_on_grey_paper_is_made_black_and_white_on_request():
    image = _as_image(0.15 + 0.7 * _drawing())
    assert restore(image) is None
    clean = restore(image, {"levels": "clean"})
    assert clean is not None
    assert _db(clean.image) > 40
    assert restore(_as_image(_drawing()), {"levels": "clean"}) is None


def test_drawings_in_two_inks_are_left_as_they_are():
    blue, red = _in_colour().pixels, _in_colour(np.array([0.8, 0.15, 0.2])).pixels
    two = np.where(np.arange(_SIDE_PX)[:, None] < 60, blue, red)
    assert restore(ImageData(two, "rgb", 8)) is None


def test_ink_on_transparent_paper_is_restored_and_is_line_art():
    random = np.random.default_rng(2).normal(0, 0.03, (_SIDE_PX, _SIDE_PX))
    colour = np.broadcast_to([0.8, 0.1, 0.1], (_SIDE_PX, _SIDE_PX, 3))

    def with_alpha(alpha: np.ndarray) -> ImageData:
        return ImageData.from_values(np.dstack([colour, alpha]), "rgba", 8)

    assert kind_of(with_alpha(1 - _drawing())) == Kind.LINE_ART
    image = with_alpha(1 - _drawing() + random)
    restored = restore(image)
    assert restored is not None
    alpha = restored.image.values()[..., 3]
    assert psnr_db(1 - alpha, _drawing()) > psnr_db(1 - image.values()[..., 3], _drawing()) + 4
    np.testing.assert_allclose(restored.image.values()[..., :3], colour, atol=0.01)
