"""Refinement of an image on a GPU compared with refinement on the CPU."""

import numpy as np
import pytest

from neuralfield.images.metrics import psnr_db
from neuralfield.images.resizing import resize_channel
from neuralfield.rendering.refining import refined
from neuralfield.system.device import gpu_is_present, select_device

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not gpu_is_present(), reason="no NVIDIA driver answers, or no CuPy"),
]


def pair(width, height, channels, scale):
    """Make a small image of blurred steps, and an enlargement of it with some noise."""
    y, x = np.mgrid[:height, :width]
    truth = np.stack([((x * (c + 2) + y) // 9 % 3) / 2 for c in range(channels)], axis=2)
    size = width // scale, height // scale
    planes = [truth[..., c].astype(np.float32) for c in range(channels)]
    small = [resize_channel(plane, size, "box") for plane in planes]
    noise = 0.03 * np.random.default_rng(0).standard_normal((height, width, channels))
    large = [resize_channel(plane, (width, height), "lanczos") for plane in small]
    return np.stack(small, 2), (np.stack(large, 2) + noise).clip(0, 1).astype(np.float32)


@pytest.mark.parametrize(
    ("width", "height", "channels", "scale"),
    [(96, 64, 1, 4), (80, 120, 3, 4), (64, 64, 4, 2), (36, 12, 3, 4), (45, 9, 1, 3), (8, 8, 3, 4)],
)
def test_it_does_what_the_processor_does(width, height, channels, scale):
    small, enlarged = pair(width, height, channels, scale)
    gpu = select_device("gpu")
    found = refined(enlarged, small, device=gpu)
    assert psnr_db(found, refined(enlarged, small)) > 45
    np.testing.assert_array_equal(found, refined(enlarged, small, device=gpu))


def test_one_colour_stays_that_colour():
    small, enlarged = np.full((8, 12, 3), 0.3, np.float32), np.full((32, 48, 3), 0.3, np.float32)
    found = refined(enlarged, small, device=select_device("gpu"))
    np.testing.assert_allclose(found, enlarged, atol=1e-5)
