import numpy as np
import pytest

from neuralfield.images.metrics import psnr_db
from neuralfield.images.resizing import back_projected, resize_channel
from neuralfield.rendering.refining import refined

SCALE = 4


def tiles(channels=1, side=96):
    """Return bars that recur, each time at other offsets from the pixels of a small image."""
    y, x = np.mgrid[:side, :side]
    bars = ((x + y // 2) % 22 < 11) ^ (y % 34 < 17)
    colours = np.linspace(0.3, 0.6, channels)
    return np.stack([np.where(bars, c, 1 - c) for c in colours], axis=2).astype(np.float32)


def small_and_enlarged(truth):
    height, width, channels = truth.shape
    size = width // SCALE, height // SCALE
    small = [resize_channel(truth[..., c], size, "box") for c in range(channels)]
    large = [
        back_projected(resize_channel(values, (width, height), "lanczos"), values)
        for values in small
    ]
    return np.stack(small, axis=2), np.stack(large, axis=2)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_what_recurs_is_found_and_the_small_image_is_kept(channels):
    truth = tiles(channels)
    small, enlarged = small_and_enlarged(truth)
    found = refined(enlarged, small)
    assert psnr_db(found.clip(0, 1), truth) > psnr_db(enlarged.clip(0, 1), truth) + 0.8
    again, _ = small_and_enlarged(found)
    assert psnr_db(again, small) > 40


def test_threads_make_no_difference():
    small, enlarged = small_and_enlarged(tiles(3))
    one, three = (refined(enlarged, small, threads=threads) for threads in (1, 3))
    np.testing.assert_array_equal(one, three)


@pytest.mark.parametrize("side", [1, 2, 3, 5])
def test_small_images(side):
    small, enlarged = small_and_enlarged(tiles(3, SCALE * side))
    found = refined(enlarged, small)
    assert found.shape == enlarged.shape and np.isfinite(found).all()


def test_one_colour_stays_that_colour():
    small, enlarged = np.full((8, 12, 3), 0.3, np.float32), np.full((32, 48, 3), 0.3, np.float32)
    np.testing.assert_allclose(refined(enlarged, small), enlarged, atol=1e-5)


def test_where_nothing_recurs_the_result_is_about_that_of_the_filter():
    """The image is noise whose amplitudes fall with the square of the frequency, as in clouds."""
    frequencies = np.hypot(np.fft.fftfreq(128)[:, None], np.fft.fftfreq(128))
    spectrum = np.fft.fft2(np.random.default_rng(5).standard_normal((128, 128)))
    spectrum /= np.maximum(frequencies, 1 / 128) ** 2
    clouds = np.fft.ifft2(spectrum).real
    clouds = 0.5 + 0.15 * (clouds - clouds.mean()) / clouds.std()
    truth = clouds.clip(0, 1)[..., None].astype(np.float32)
    small, enlarged = small_and_enlarged(truth)
    found = refined(enlarged, small)
    assert psnr_db(found.clip(0, 1), truth) > psnr_db(enlarged.clip(0, 1), truth) - 0.15
