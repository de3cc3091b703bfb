"""Noise of paper: its correlation, what files clip of it, and specks that look like dots of ink."""

import numpy as np
import pytest

from neuralfield.images import ImageData
from neuralfield.images.paper_noise import PaperNoise
from neuralfield.images.patch_filter import filter_guided
from neuralfield.images.restoring import restore

_SIDE_PX = 128


def _grain(sigma: float, seed: int = 0) -> np.ndarray:
    """Return noise in which neighbouring pixels are correlated by a half; (side, side)."""
    noise = np.random.default_rng(seed).standard_normal((_SIDE_PX, _SIDE_PX))
    for axis in (0, 1):
        noise = np.roll(noise, 1, axis) + 2 * noise + np.roll(noise, -1, axis)
    return sigma * noise / noise.std()


def _bars() -> np.ndarray:
    """Return slanted bars on paper, with dots between them; float32, shape (side, side)."""
    y, x = (np.mgrid[: 4 * _SIDE_PX, : 4 * _SIDE_PX] + 0.5) / 4
    is_ink = ((y + 0.15 * x) % 32 < 2) | (np.hypot(x % 32 - 16, (y + 0.15 * x) % 32 - 17) < 0.8)
    return 1 - is_ink.reshape(_SIDE_PX, 4, _SIDE_PX, 4).mean((1, 3)).astype(np.float32)


@pytest.mark.parametrize("is_clipped", [False, True])
def test_correlations_are_measured_also_where_a_file_clips_them(is_clipped):
    paper = np.ones((_SIDE_PX, _SIDE_PX))
    residuals = np.minimum(_grain(0.05), 0) if is_clipped else _grain(0.05)
    found = PaperNoise.of(residuals, paper, 0.01, is_clipped=is_clipped).autocovariance
    assert found[3, 3] == pytest.approx(0.05**2, rel=0.1)
    assert found[3, 4] / found[3, 3] == pytest.approx(2 / 3, abs=0.05)
    assert found[2, 3] / found[3, 3] == pytest.approx(2 / 3, abs=0.05)
    assert abs(found[3, 6] / found[3, 3]) < 0.05


def test_clipped_noise_has_the_mean_of_the_paper_again():
    noisy = np.clip(1 + _grain(0.05), 0, 1)
    noise = PaperNoise.of(noisy - 1, np.ones_like(noisy), 0.01, is_clipped=True)
    assert noisy.mean() < 0.985
    found = noise.unclipped(noisy, noisy, np.ones_like(noisy))
    assert found.mean() == pytest.approx(1, abs=0.003)


def test_faint_ink_within_the_noise_is_removed_and_dots_are_kept():
    drawing = np.ones((_SIDE_PX, _SIDE_PX), np.float32)
    drawing[20:22, 30:32] = 0.85  # a grain
    drawing[50:52, 60:62] = 0.7  # a dot
    drawing[80, 20:140] = 0.9  # a line, each pixel of which is fainter than a grain
    drawing[120:124] = 0
    noise = PaperNoise.of(_grain(0.05), np.ones_like(drawing), 0.05, is_clipped=False)
    found = noise.without_specks(drawing, np.zeros_like(drawing))
    assert (found[20:22, 30:32] == 1).all()
    drawing[20:22, 30:32] = 1
    np.testing.assert_array_equal(found, drawing)


def test_correlated_noise_is_filtered_by_a_guide():
    bars, noise = _bars(), _grain(0.05)
    autocovariance = PaperNoise.of(noise, np.ones_like(bars), 0.05, is_clipped=False).autocovariance
    found = filter_guided(bars + noise, bars, autocovariance)
    assert np.std(found - bars) < 0.4 * np.std(noise)


def test_grain_of_film_leaves_no_specks_on_paper_and_dots_stay():
    bars = _bars()
    noisy = ImageData.from_values((bars + _grain(0.045))[..., None], "grey", 8)
    restored = restore(noisy)
    assert restored is not None
    values = restored.image.values()[..., 0]
    is_paper = np.ones_like(bars, bool)
    for down in range(-2, 3):
        for across in range(-2, 3):
            is_paper &= np.roll(bars, (down, across), (0, 1)) == 1
    assert values[3:-3, 3:-3][is_paper[3:-3, 3:-3]].min() > 0.98
    y, x = np.mgrid[:_SIDE_PX, :_SIDE_PX] + 0.5
    is_dot = np.hypot(x % 32 - 16, (y + 0.15 * x) % 32 - 17) < 2
    inked = [(1 - image)[is_dot].sum() for image in (values, bars)]
    assert inked[0] == pytest.approx(inked[1], rel=0.1)
