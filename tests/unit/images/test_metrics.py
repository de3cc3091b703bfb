import math

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from skimage.metrics import structural_similarity

from neuralfield.images import metrics
from neuralfield.system.errors import InputError


def noisy_pair(shape, seed=0, noise=0.1):
    random = np.random.default_rng(seed)
    smooth = np.cumsum(random.normal(size=shape), axis=0)
    reference = (smooth - smooth.min()) / np.ptp(smooth)
    return np.clip(reference + noise * random.normal(size=shape), 0, 1), reference


def test_psnr_of_a_constant_error():
    assert metrics.psnr_db(np.full((4, 5, 3), 0.6), np.full((4, 5, 3), 0.5)) == pytest.approx(20)


def test_psnr_counts_every_channel():
    reference = np.zeros((8, 8, 4))
    image = reference.copy()
    image[..., 3] = 0.2
    assert metrics.psnr_db(image, reference) == pytest.approx(-10 * math.log10(0.04 / 4))


def test_identical_images_are_infinitely_close_and_finite_in_json():
    image, _ = noisy_pair((20, 20, 1))
    assert metrics.psnr_db(image, image) == math.inf
    assert metrics.finite_db(math.inf) == metrics.IDENTICAL_DB
    assert metrics.finite_db(31.25) == 31.25
    assert metrics.ssim(image, image) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(
    "shape", [(11, 11, 1), (64, 48, 1), (50, 33, 3), (40, 90, 4), (150, 1050, 1)]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ssim_agrees_with_scikit_image(shape, dtype):
    image, reference = noisy_pair(shape, noise=0.05)
    image, reference = image.astype(dtype), reference.astype(dtype)
    expected = structural_similarity(
        image.astype(np.float64),
        reference.astype(np.float64),
        gaussian_weights=True,
        sigma=1.5,
        use_sample_covariance=False,
        data_range=1,
        channel_axis=2,
    )
    assert metrics.ssim(image, reference) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 9), (6, 30), (14, 3), (11, 12)])
def test_ssim_has_a_value_at_every_size(height, width):
    image, reference = noisy_pair((height + 1, width, 1))
    image, reference = image[:height], reference[:height]
    value = metrics.ssim(image, reference)
    assert -1 <= value <= 1
    assert value == pytest.approx(metrics.ssim(reference, image))
    assert metrics.ssim(reference, reference) == pytest.approx(1)


def test_gmsd_is_the_deviation_of_the_similarities_of_gradients():
    image, reference = noisy_pair((9, 12, 1))

    def lengths(values):
        small = values[:8, :, 0].reshape(4, 2, 6, 2).mean(axis=(1, 3))
        kernel = np.array([[1, 0, -1]] * 3) / 3
        around = sliding_window_view(np.pad(small, 1, mode="edge"), (3, 3))
        gradients = [(around * k).sum(axis=(2, 3)) for k in (kernel, kernel.T)]
        return np.sqrt(gradients[0] ** 2 + gradients[1] ** 2)

    ours, true, c = lengths(image), lengths(reference), 170 / 255**2
    similarities = (2 * ours * true + c) / (ours**2 + true**2 + c)
    assert metrics.gmsd(image, reference) == pytest.approx(similarities.std())


@pytest.mark.parametrize("shape", [(8, 8, 3), (8, 8, 4), (1, 5, 1), (3, 3)])
def test_gmsd_sees_neither_equal_images_nor_another_brightness(shape):
    image = noisy_pair((8, 8, 4))[0].ravel()[: math.prod(shape)].reshape(shape)
    assert metrics.gmsd(image, image) == 0
    assert metrics.gmsd(image + 0.1, image) == pytest.approx(0, abs=1e-6)


def test_wrong_pixels_counts_the_other_side_of_the_threshold():
    reference = np.array([[0.0, 0.4, 0.5], [1.0, 0.9, 0.1]])
    image = np.array([[0.2, 0.6, 0.5], [0.4, 0.51, 0.49]])
    assert metrics.wrong_pixels(image, reference) == 2
    assert metrics.wrong_pixels(image, reference, threshold=0.55) == 3


def test_invisible_colour_does_not_count():
    reference = np.zeros((4, 4, 4))
    image = np.ones((4, 4, 4))
    image[..., 3] = 0
    assert metrics.psnr_db(metrics.as_seen(image), metrics.as_seen(reference)) == math.inf
    rgb = image[..., :3]
    assert metrics.as_seen(rgb) is rgb


@pytest.mark.parametrize(
    "shapes", [((4, 4, 1), (4, 5, 1)), ((4, 4), (4, 4, 1)), ((0, 4, 1), (0, 4, 1))]
)
@pytest.mark.parametrize(
    "measure", [metrics.psnr_db, metrics.ssim, metrics.gmsd, metrics.wrong_pixels]
)
def test_images_that_cannot_be_compared_are_refused(measure, shapes):
    with pytest.raises(InputError, match="equal height, width and channels"):
        measure(np.zeros(shapes[0]), np.zeros(shapes[1]))
